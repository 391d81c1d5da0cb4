"""What rows are told apart by: texts of groups, small numbers in their place, hashes of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from calipers.metrics.declare.declaration import GROUP
from calipers.support.late import WORTH_LOADING, np

_FEW = 16  # values: as quickly compared with each one by one as looked up

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

    def number(self, text: str) -> int:
        """Return the number of a text that is known."""
        return self._numbers[text]

    def encode(self, column: pl.Series) -> pl.Series:
        """Return the texts' numbers; those that are new get the next ones."""
        if column.null_count() == len(column):
            return pl.Series(column.name, [None], dtype=pl.Int32).new_from_index(0, len(column))
        numbers, first = number_values(column)
        own = [None if text is None else self._take(text) for text in column.gather(first)]
        return pl.Series(column.name, own, dtype=pl.Int32).gather(numbers)

    def _take(self, text: str) -> int:
        """Return a text's number, the next one if it is new; beyond the most that of all others."""
        is_full = self._most is not None and len(self._numbers) >= self._most
        if is_full and text not in self._numbers:
            text = OTHERS
        return self._numbers.setdefault(text, len(self._numbers))

    def decode(self, numbers: pl.Series) -> pl.Series:
        """Return the texts of these numbers."""
        return pl.Series(self.texts, dtype=pl.String).gather(numbers).alias(numbers.name)

    def encode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with numbers in the place of groups."""
        return table.with_columns(self.encode(table[GROUP]))

    def decode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with groups in the place of their numbers."""
        return table.with_columns(self.decode(table[GROUP]))


def number_values(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a number per row for its value, in the order in which they come, and the first rows.

    Values are told apart by 64 bits of them, as tasks are.

    >>> numbers, first = number_values(pl.Series(["b", "a", "b", None]))
    >>> numbers.to_list(), first.to_list()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    hashes = values.hash()
    known = hashes.unique(maintain_order=True)
    if len(known) > _FEW or len(values) < WORTH_LOADING:
        order = known.arg_sort()
        numbered = order.gather(known.gather(order).search_sorted(hashes))
        return numbered, hashes.is_first_distinct().arg_true()
    all_bits = hashes.to_numpy()
    are = [all_bits == bits for bits in known]
    numbers = np.zeros(len(hashes), dtype=np.uint8)
    for at, each in enumerate(are):
        numbers += each * np.uint8(at)
    return pl.Series(numbers), pl.Series([each.argmax() for each in are], dtype=pl.Int64)


def hash_texts(*columns: str) -> pl.Expr:
    """Return 64 bits of the columns' texts; signed, because Spark has no unsigned integers."""
    return pl.struct(pl.col(columns).cast(pl.String)).hash().reinterpret(signed=True)


def group_text(by: Sequence[str]) -> pl.Expr:
    """Return the text that stands for a row's group: its fields as JSON."""
    return pl.struct(by).struct.json_encode() if by else pl.lit("{}")


def write_groups(records: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Return the text of each row's group, written once for each group."""
    if not by:
        return group_text(by)
    keys = records.select(by)
    numbers, first = number_values(keys.to_series() if len(by) == 1 else keys.to_struct())
    texts = keys[first].select(group_text(by)).to_series()
    return pl.lit(texts.gather(numbers))


def write_key(name: str, records: pl.DataFrame) -> pl.Expr:
    """Return the text of a group by one field, null where there is none."""
    if records[name].null_count() == records.height:
        return pl.lit(None, pl.String)
    return pl.when(pl.col(name).is_not_null()).then(write_groups(records, [name]))


def name_key(name: str) -> str:
    """Return the column with a field's text, where rows are grouped by it after reading."""
    return f"_key_{name}"


def hash_in_group(field: str) -> pl.Expr:
    """Return a number for the field's value within the row's group, null where there is none."""
    return pl.when(pl.col(field).is_not_null()).then(hash_texts(GROUP, field))


def hash_in_all(field: str) -> pl.Expr:
    """Return a number for the field's value whatever the row's group, null where there is none."""
    whole = pl.struct(group_text(()).alias(GROUP), pl.col(field).cast(pl.String))
    return pl.when(pl.col(field).is_not_null()).then(whole.hash().reinterpret(signed=True))
