"""Features sorted within each group: the values at ranks, and the most frequent one.

For as many rows as fit in memory. Beyond that, and on a cluster, `ranks` counts instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from calipers.metrics.declaration import GROUP, Feature

HELD_ROWS = 20_000_000

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Parts = Callable[[Sequence[str]], Iterator[pl.DataFrame]]


class SortedGroups:
    """All rows put in order by group once, and each feature then within its groups."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        groups = pl.concat(part[GROUP] for part in parts([GROUP]))
        names = groups.unique()
        self._number = {name: number for number, name in enumerate(names.to_list())}
        numbers = np.zeros(int(names.to_physical().max() or 0) + 1, _smallest(names.len()))  # type: ignore[arg-type]
        numbers[names.to_physical().to_numpy()] = np.arange(names.len())
        of_rows = numbers[groups.to_physical().to_numpy()]
        self._order = np.argsort(of_rows, kind="stable")
        counts = np.bincount(of_rows, minlength=names.len())
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._sorted: dict[Feature, Floats] = {}

    def values(self, feature: Feature) -> Floats:
        """Group after group, each in ascending order, rows without a value at its end."""
        if feature not in self._sorted:
            column = pl.concat(part[feature.name] for part in self._parts([feature.name]))
            values = column.to_numpy()[self._order]
            for start, end in pairwise(self._starts):
                values[start:end].sort()
            self._sorted = {feature: values}  # the last one: it is often asked for again
        return self._sorted[feature]

    def at(
        self, feature: Feature, positions: Sequence[tuple[str, str, int]]
    ) -> Iterator[tuple[str, str, float]]:
        """The values at positions, from 1; each is asked for by group and name, and given so."""
        if not positions:
            return
        values = self.values(feature)
        for group, name, position in positions:
            yield group, name, float(values[self._starts[self._number[group]] + position - 1])

    def modes(self, feature: Feature) -> Iterator[tuple[str, float]]:
        """Each group's most frequent value, of equals the smallest."""
        values = self.values(feature)
        fresh = np.ones(len(values), bool)  # where a run of equal values begins
        fresh[1:] = values[1:] != values[:-1]
        fresh[self._starts[:-1][self._starts[:-1] < len(values)]] = True
        begins = np.flatnonzero(fresh)
        lengths = np.diff(begins, append=len(values))
        lengths[np.isnan(values[begins])] = 0
        first_run = np.searchsorted(begins, self._starts[:-1])
        most = np.maximum.reduceat(lengths, first_run)
        runs = np.diff(first_run, append=len(begins))
        winners = np.flatnonzero(lengths == np.repeat(most, runs))
        first_winner = winners[np.searchsorted(winners, first_run)]
        for group, number in self._number.items():
            if most[number]:
                yield group, float(values[begins[first_winner[number]]])


def _smallest(groups: int) -> type[np.unsignedinteger]:
    """16 bits where they do: NumPy then sorts by counting."""
    return np.uint16 if groups <= 2**16 else np.uint32
