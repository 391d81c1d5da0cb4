"""Small numbers in the place of texts that come again and again."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

OTHERS = "others"  # stands for all texts beyond the most that are told apart


class Codes:
    """Numbers texts in the order in which they first come; of too many the last ones as one.

    >>> codes = Codes()
    >>> codes.encode(pl.Series("model", ["b", "a", None, "b"])).to_list()
    [0, 1, None, 0]
    >>> codes.decode(pl.Series("model", [1, 0])).to_list()
    ['a', 'b']
    """

    def __init__(self, most: int | None = None, texts: Iterable[str] = ()) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}
        self._most = most

    @property
    def texts(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._numbers)

    def __len__(self) -> int:
        """Return how many different texts there are."""
        return len(self._numbers)

    @property
    def are_all(self) -> bool:
        """Whether every text has a number of its own."""
        return OTHERS not in self._numbers or self._most is None

    def number(self, text: str) -> int:
        """Return the number of a text that is known."""
        return self._numbers[text]

    def encode(self, column: pl.Series) -> pl.Series:
        """Return the texts' numbers; those that are new get the next ones."""
        for text in column.unique(maintain_order=True).drop_nulls():
            if self._most is None or len(self._numbers) < self._most:
                self._numbers.setdefault(text, len(self._numbers))
            elif text not in self._numbers:
                self._numbers.setdefault(OTHERS, len(self._numbers))
        known = pl.Enum(self.texts)
        named = column.cast(known, strict=self.are_all)
        if not self.are_all:
            others = pl.when(column.is_not_null()).then(pl.lit(OTHERS, dtype=known))
            named = pl.select(pl.coalesce(named, others)).to_series()
        return named.to_physical().cast(pl.Int32).alias(column.name)

    def decode(self, numbers: pl.Series) -> pl.Series:
        """Return the texts of these numbers."""
        return pl.Series(self.texts, dtype=pl.String).gather(numbers).alias(numbers.name)
