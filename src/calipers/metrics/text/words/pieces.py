r"""Texts cut into words or tokens, a whole column at once, each distinct piece known by a number.

Python itself lower-cases, and its `re` says which characters are letters: the tables of Unicode in
Polars are of another version, and its `\w` takes in marks that Python's does not. So texts are cut
as the Python that runs would cut them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any, TypeAlias

import polars as pl

from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

Array: TypeAlias = "np.ndarray[Any, Any]"

_WORD = r"[^\s\x1c-\x1f]+"  # as `str.split()` cuts: Rust's white space lacks the last four
_RUN_IN_ASCII = r"[0-9a-z_]{2,}"
_PLANES = 0x40000  # Unicode has no letter, digit or underscore beyond
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of all texts, one text after the other."""

    numbers: Array  # equal pieces, and only they, have the same number
    texts: Array  # the position of the text that each is from

    @property
    def bound(self) -> int:
        """Above every number."""
        return int(self.numbers.max()) + 1 if len(self.numbers) else 1


def split_words(texts: pl.Series) -> Pieces:
    """Return what `text.lower().split()` gives."""
    return _cut([text.lower() for text in texts], _WORD)


def split_tokens(texts: pl.Series, *, without: Collection[str] = ()) -> Pieces:
    r"""Return what `re.findall(r"\b\w\w+\b", text.lower())` gives."""
    lowered = [text.lower() for text in texts]
    ascii_only = all(text.isascii() for text in lowered)
    return _cut(lowered, _RUN_IN_ASCII if ascii_only else _list_word_ranges(), without=without)


def _cut(texts: list[str], pattern: str, *, without: Collection[str] = ()) -> Pieces:
    """Return the pieces; categories number them exactly, whereas hashes may collide."""
    found = pl.Series(texts, dtype=pl.String).str.extract_all(pattern)
    # In one column with the pieces: categories, and their numbers, last as long as a column does.
    every = pl.concat(
        [pl.Series(sorted(without), dtype=pl.String), found.explode(empty_as_null=False)]
    )
    numbers = every.cast(pl.Categorical(pl.Categories.random())).to_physical().to_numpy()
    left_out, pieces = np.split(numbers.astype(np.int64), [len(without)])
    origin = np.repeat(np.arange(len(texts)), found.list.len().to_numpy())
    if len(left_out):
        kept = np.ones(numbers.max() + 1, dtype=np.bool_)
        kept[left_out] = False
        pieces, origin = pieces[kept[pieces]], origin[kept[pieces]]
    return Pieces(pieces, origin)


@cache
def _list_word_ranges() -> str:
    r"""Return runs of what Python's `\w` matches, as ranges of code points."""
    points = np.delete(np.arange(_PLANES, dtype="<u4"), _SURROGATES)
    runs = re.findall(r"\w+", points.tobytes().decode("utf-32-le"))
    ranges = (rf"\x{{{ord(run[0]):x}}}-\x{{{ord(run[-1]):x}}}" for run in runs)
    return f"[{''.join(ranges)}]{{2,}}"
