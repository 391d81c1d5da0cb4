"""What the two texts of a pair have in common: how often each term is in one and in the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from calipers.metrics.text.words.pieces import Array
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

_AT_ONCE = 1 << 20  # bytes of text: what is made of them takes some ten times as much memory
_PER_PAIR = 64  # bytes, so that a slice of empty texts has its bounds too


@dataclass(frozen=True, slots=True)
class Counts:
    """A row for each pair and each term that is in one of its texts, pair after pair."""

    first: Array  # how often the term is in the first text
    second: Array
    edges: Array  # where the rows of each pair begin, and where the last end

    @property
    def shared(self) -> Array:
        """Which terms both texts have."""
        both: Array = (self.first > 0) & (self.second > 0)
        return both

    @property
    def terms(self) -> Array:
        """How many terms each pair has."""
        return np.diff(self.edges)

    def sum_per_pair(self, values: Array) -> Array:
        """Return the sum of whole numbers over each pair's terms."""
        return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[self.edges])


def count_terms(terms: Array, texts: Array, *, bound: int, pairs: int) -> Counts:
    """Count terms below `bound`; text k is the first of pair k, text k + pairs the second."""
    # Pair, term and side as one number, so that one sort brings equal ones together. No hash, so
    # no two terms are ever taken for one; and it fits: a slice of several pairs has at most 2^14
    # of them and 2^19 pieces, two of which make 2^38 terms; one pair alone may have 2^30 pieces.
    second = texts >= pairs
    keys = ((texts - pairs * second) * bound + terms) * 2 + second
    keys.sort()
    starts = np.flatnonzero(np.diff(keys >> 1, prepend=-1))
    in_second = np.add.reduceat(keys & 1, starts) if len(starts) else starts
    in_both = np.diff(starts, append=len(keys))
    edges = np.searchsorted(keys[starts], np.arange(pairs + 1) * (2 * bound))
    return Counts(in_both - in_second, in_second, edges)


def apply_to_pairs(
    work: Callable[[pl.Series, int], Array], first: pl.Series, second: pl.Series
) -> pl.Series:
    """Return `work` on both columns, one below the other, by slices; null if either text is."""
    rows = (first.is_not_null() & second.is_not_null()).arg_true()
    if not len(rows):
        return pl.Series(first.name, dtype=pl.Float64).clear(len(first))
    a, b = first.gather(rows), second.gather(rows)
    # No threads here: inside an expression, Polars would wait for them, and they for Polars.
    found = [
        work(pl.concat([a.slice(start, size), b.slice(start, size).alias(a.name)]), size)
        for start, size in _split_pairs(a, b)
    ]
    values = np.full(len(first), np.nan)
    values[rows.to_numpy()] = np.concatenate(found)
    return pl.Series(first.name, values, dtype=pl.Float64, nan_to_null=True)


def _split_pairs(a: pl.Series, b: pl.Series) -> Iterator[tuple[int, int]]:
    """Yield starts and sizes of slices with few enough bytes; a longer text has its own."""
    ends = np.cumsum((a.str.len_bytes() + b.str.len_bytes()).to_numpy().astype(np.int64))
    ends += _PER_PAIR * np.arange(1, len(ends) + 1)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
        yield start, stop - start
        start = stop
