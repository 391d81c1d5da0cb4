"""Features sorted within each group: the values at ranks, and the most frequent one.

For as many rows as fit in memory. Beyond that, and on a cluster, `ranks` counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from calipers.engines.group_order import order_codes
from calipers.engines.ranks import Position
from calipers.engines.store import GroupedRows
from calipers.metrics.declare.declaration import GROUP, Feature
from calipers.metrics.declare.description import name_mode
from calipers.support.late import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANKED_ROWS = 20_000_000  # beyond that, counting finds a rank in less memory
_FEW_ROWS = 2_000_000  # of which the values of all features are kept

Floats: TypeAlias = "NDArray[np.float64]"


class SortedGroups:
    """Each feature's values by group, and there in order as far as is asked for.

    `modes` are the features whose most frequent values are told too, when first asked for.
    """

    def __init__(self, store: GroupedRows, modes: Iterable[Feature] = ()) -> None:
        self._store = store
        codes = [part[GROUP].to_numpy() for part in store.parts([GROUP])]
        self._orders = [order_codes(each) for each in codes]
        self._counts = [np.bincount(each, minlength=len(store.groups)) for each in codes]
        self._starts = np.concatenate(([0], np.cumsum(np.sum(self._counts, axis=0))))
        self._modes = frozenset(modes)
        self._untold = {*self._modes}
        self._gathered: dict[Feature, Floats] = {}

    def _gather(self, feature: Feature) -> Floats:
        """Return the values group by group; in order if modes are asked for."""
        if feature not in self._gathered:
            values = np.empty(self._starts[-1])
            places = self._starts[:-1].copy()
            parts = self._store.parts([feature.name])
            for part, order, counts in zip(parts, self._orders, self._counts, strict=True):
                column = part[feature.name].to_numpy()
                column = column if order is None else column[order]
                taken = 0
                for code in np.flatnonzero(counts):
                    place, count = places[code], counts[code]
                    values[place : place + count] = column[taken : taken + count]
                    taken += count
                places += counts
            for start, end in pairwise(self._starts) if feature in self._modes else ():
                values[start:end].sort()
            if len(values) > _FEW_ROWS:
                self._gathered.clear()
            self._gathered[feature] = values  # the last one, if not all, is often asked for again
        return self._gathered[feature]

    def select(
        self, wanted: Mapping[Feature, Sequence[Position]]
    ) -> Iterator[tuple[str, str, float]]:
        """Yield features' values at some positions, and modes, each with its group and name."""
        for feature, positions in wanted.items():
            yield from self._select(feature, positions)
            if feature in self._untold:
                self._untold.remove(feature)
                yield from self._find_modes(feature)

    def _select(
        self, feature: Feature, positions: Sequence[Position]
    ) -> Iterator[tuple[str, str, float]]:
        if not positions:
            return
        values = self._gather(feature)
        for group, asked in groupby(sorted(positions), key=itemgetter(0)):
            code = self._store.codes.number(group)
            own = values[self._starts[code] : self._starts[code + 1]]
            found = [(name, position - 1) for _, name, position in asked]
            if feature not in self._modes:
                own.partition([place for _, place in found])
            for name, place in found:
                yield group, name, float(own[place])

    def _find_modes(self, feature: Feature) -> Iterator[tuple[str, str, float]]:
        """Yield each group's most frequent value, the smallest of equals."""
        values = self._gather(feature)
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
                yield group, name_mode(feature), float(values[begins[first_winner[code]]])
