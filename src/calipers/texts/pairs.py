"""What the two texts of a pair have in common: how often each term is in one and in the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from calipers.texts.pieces import Array

_AT_ONCE = 4 << 20  # bytes of text: what is made of them takes some ten times as much memory
_PER_PAIR = 64  # bytes, so that a slice of empty texts has its bounds too


@dataclass(frozen=True, slots=True)
class Counts:
    """A row for each pair and each term that is in one of its texts."""

    pair: Array
    first: Array  # how often the term is in the first text
    second: Array
    pairs: int

    @property
    def shared(self) -> Array:
        """Which terms both texts have."""
        both: Array = (self.first > 0) & (self.second > 0)
        return both

    def per_pair(self, values: Array) -> Array:
        """The sum of whole numbers over each pair's terms; exact, so in whichever order."""
        return np.bincount(self.pair, weights=values, minlength=self.pairs)


def counted(terms: Array, texts: Array, *, bound: int, pairs: int) -> Counts:
    """Count terms below `bound`; text k is the first of pair k, text k + pairs the second."""
    # Pair, term and side as one number, so that one sort brings equal ones together. No hash, so
    # no two terms are ever taken for one; and it fits: a slice of several pairs has at most 2^16
    # of them and 2^21 pieces, two of which make 2^42 terms; one pair alone may have 2^30 pieces.
    second, pair = np.divmod(texts, pairs)
    keys = (pair * bound + terms) * 2 + second
    keys.sort()
    starts = np.flatnonzero(np.diff(keys >> 1, prepend=-1))
    in_second = np.add.reduceat(keys & 1, starts) if len(starts) else starts
    total = np.diff(starts, append=len(keys))
    return Counts(keys[starts] // (2 * bound), total - in_second, in_second, pairs)


def by_pairs(
    work: Callable[[pl.Series, int], Array], first: pl.Series, second: pl.Series
) -> pl.Series:
    """Slice by slice, `work` on both columns below each other; null where either text is."""
    known = first.is_not_null() & second.is_not_null()
    rows = known.arg_true()
    a, b = first.gather(rows), second.gather(rows)
    found = [
        work(pl.concat([a.slice(start, size), b.slice(start, size).alias(a.name)]), size)
        for start, size in _slices(a, b)
    ]
    values = np.full(len(first), np.nan)
    values[rows.to_numpy()] = np.concatenate(found) if found else []
    return pl.Series(first.name, values, dtype=pl.Float64, nan_to_null=True)


def _slices(a: pl.Series, b: pl.Series) -> Iterator[tuple[int, int]]:
    """Starts and sizes of slices with few enough bytes; a longer text has one of its own."""
    ends = np.cumsum((a.str.len_bytes() + b.str.len_bytes()).to_numpy().astype(np.int64))
    ends += _PER_PAIR * np.arange(1, len(ends) + 1)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
        yield start, stop - start
        start = stop
