"""Features sorted within each group: the values at ranks, and the most frequent one.

For as many rows as fit in memory. Beyond that, and on a cluster, `ranks` counts instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from calipers.engines.store import GroupedRows
from calipers.metrics.declare.declaration import GROUP, Feature

RANKED_ROWS = 2_000_000  # beyond that, counting finds a rank in less memory
DESCRIBED_ROWS = 20_000_000  # to count every value for its mode would take more

Floats = npt.NDArray[np.float64]


class SortedGroups:
    """All rows put in order by group once, and each feature then within its groups."""

    def __init__(self, store: GroupedRows) -> None:
        self._store = store
        codes = pl.concat(part[GROUP] for part in store.parts([GROUP])).to_numpy()
        counts = np.bincount(codes)
        if len(counts) <= 2**16:
            codes = codes.astype(np.uint16)  # so few are sorted by counting
        self._order = np.argsort(codes, kind="stable")
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._sorted: dict[Feature, Floats] = {}

    def sort_values(self, feature: Feature) -> Floats:
        """Return the values group by group in ascending order, rows without a value last."""
        if feature not in self._sorted:
            column = pl.concat(part[feature.name] for part in self._store.parts([feature.name]))
            values = column.to_numpy()[self._order]
            for start, end in pairwise(self._starts):
                values[start:end].sort()
            self._sorted = {feature: values}  # the last one: it is often asked for again
        return self._sorted[feature]

    def select(
        self, feature: Feature, positions: Sequence[tuple[str, str, int]]
    ) -> Iterator[tuple[str, str, float]]:
        """Yield the values at positions, from 1, each with its group and name."""
        if not positions:
            return
        values = self.sort_values(feature)
        for group, name, position in positions:
            yield group, name, float(values[self._starts[self._store.encode(group)] + position - 1])

    def find_modes(self, feature: Feature) -> Iterator[tuple[str, float]]:
        """Yield each group's most frequent value, the smallest of equals."""
        values = self.sort_values(feature)
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
        for code, group in enumerate(self._store.groups):
            if most[code]:
                yield group, float(values[begins[first_winner[code]]])
