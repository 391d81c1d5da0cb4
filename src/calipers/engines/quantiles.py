"""The value at a rank of each group: its position, and how it is found, by sorting or counting.

As many rows as fit in memory are sorted within each group, which also gives the most frequent
value. Beyond that, and on a cluster, values are counted without sorting a group or holding it in
one place: rows are counted by the upper 16 bits of their value's sort key, which tells in which
bucket the rank lies; then, within it, by the upper 32 bits; then by the value itself, at once where
few rows are left. Every count is a plain group-by, so the same steps run on the parts of a table
and on a cluster. Both ways are exact.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from calipers.engines.group_codes import Codes, order_codes
from calipers.engines.store import GroupedRows
from calipers.engines.totals import GroupTotals, Sum, collect_sorted
from calipers.metrics.declare.declaration import GROUP, Feature, Frame, Rank
from calipers.metrics.declare.distributions import list_positions, name_mode
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.families.cost import TIER
from calipers.statistics.intervals import effective_size, quantile_ranks
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY, _BUCKET, _COUNT = "_key", "_bucket", "_n"
_NAME, _POSITION, _FOUND = "_name", "_position", "_found"
_DIGIT = 2**16
_FEW = 200_000  # so many rows may as well be counted value by value at once

Count = Callable[[Frame], Frame]
"""Counts rows: gives group, bucket, key and count."""

Position = tuple[str, str, int]
"""A place, from 1, among the values of a group: asked for by group and name."""


def locate_ranks(groups: GroupTotals, rank: Rank, confidence: float) -> Iterator[Position]:
    """Yield each group's position of the rank, and of its bounds if rows are independent."""
    for group, count in _count_values(groups, rank.feature).items():
        yield group, rank.value_name, rank.locate(count)
        yield from _locate_bounds(group, rank, count, float(count), confidence)


def locate_clustered_ranks(
    groups: GroupTotals, rank: Rank, confidence: float
) -> Iterator[Position]:
    """Yield the positions of the bounds in groups whose rows come in clusters."""
    for group, count in _count_values(groups, rank.feature).items():
        spread, clusters = read_spread(rank.influence.name, groups[group])
        if clusters.count < count:
            for name in (rank.low_name, rank.high_name):
                groups[group].pop(name, None)
            size = effective_size(rank.percent / 100, count, spread, clusters)
            yield from _locate_bounds(group, rank, count, size, confidence)


def locate_described(groups: GroupTotals, feature: Feature) -> Iterator[Position]:
    """Yield where in each group the statistics of a feature are among its sorted values."""
    for group, count in _count_values(groups, feature).items():
        for name, position in list_positions(feature.name, count).items():
            yield group, name, position


def adjust_confidence(groups: Collection[str], confidence: float) -> float:
    """Return the confidence of each interval for all tiers of a family to be covered at once.

    Bonferroni's: the families are the groups that differ in nothing but their tier.
    """
    others = (
        json.dumps({name: value for name, value in json.loads(text).items() if name != TIER})
        for text in groups
    )
    largest = max(Counter(others).values(), default=1)
    return 1 - (1 - confidence) / largest


def _locate_bounds(
    group: str, rank: Rank, count: int, size: float, confidence: float
) -> Iterator[Position]:
    low, high = quantile_ranks(rank.percent / 100, count, size, confidence)
    for name, position in ((rank.low_name, low), (rank.high_name, high)):
        if position is not None:
            yield group, name, position


def _count_values(groups: GroupTotals, feature: Feature) -> dict[str, int]:
    """Return how many values of a feature each group has, if any."""
    counts = {group: int(totals.get(f"{feature.name}__n", 0)) for group, totals in groups.items()}
    return {group: count for group, count in counts.items() if count}


class CountedRanks:
    """Looks values up by counting; all features together, so that few passes are made."""

    def __init__(self, store: GroupedRows) -> None:
        self._store = store
        self._first: Mapping[Feature, pl.DataFrame] = {}

    def declare_first(self, features: Iterable[Feature]) -> dict[Feature, Count]:
        """Return the first count of each feature, which serves any position."""
        return {feature: _Search(feature, (), self._store).count() for feature in features}

    def take_first(self, tables: Mapping[Feature, pl.DataFrame]) -> None:
        """Take the first counts of all features, before any position is looked up."""
        self._first = tables

    def select(
        self, wanted: Mapping[Feature, Sequence[Position]]
    ) -> Iterator[tuple[str, str, float]]:
        """Yield each feature's values at some positions, each with its group and name."""
        searches = {
            feature: _Search(feature, positions, self._store)
            for feature, positions in wanted.items()
            if positions
        }
        for feature, search in searches.items():
            search.narrow(self._first[feature])
        while due := {feature: search for feature, search in searches.items() if search.is_open}:
            counts = {feature: search.count() for feature, search in due.items()}
            value_counts = ValueCounts(counts)
            columns = [GROUP, *(feature.name for feature in counts)]
            for tables in self._store.map_parts(partial(count_part, counts=counts), columns):
                value_counts.add(tables)
            for feature, table in value_counts.finish(self._store.codes).items():
                due[feature].narrow(table)
        for search in searches.values():
            yield from search.found.select(GROUP, _NAME, _FOUND).iter_rows()


class ValueCounts:
    """Features' counts over all parts, added up as they come."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._sums = {feature: Sum([GROUP, _BUCKET, _KEY]) for feature in features}

    def add(self, tables: Iterable[pl.DataFrame]) -> None:
        """Take the counts over one more part, of each feature."""
        for running, table in zip(self._sums.values(), tables, strict=True):
            running.add(table)

    def finish(self, codes: Codes) -> dict[Feature, pl.DataFrame]:
        """Return each feature's counts by the names of the groups."""
        return {
            feature: codes.decode_groups(running.table) for feature, running in self._sums.items()
        }


def count_part(part: pl.DataFrame, counts: Mapping[Feature, Count]) -> list[pl.DataFrame]:
    """Return each feature's counts over a part."""
    keyed = ((part.lazy().with_columns(_sort_key(feature)), counts[feature]) for feature in counts)
    return [collect_sorted(count(rows), _BUCKET, _KEY) for rows, count in keyed]


def _sort_key(feature: Feature) -> pl.Expr:
    """Return the upper 32 bits of a double, arranged so that they sort as the numbers do."""
    bits = (pl.col(feature.name) + 0.0).reinterpret(dtype=pl.Int64)  # + 0.0: no minus zero
    key = pl.when(bits < 0).then(-(2**63) - bits - 1).otherwise(bits)
    return (key // 2**32).alias(_name_coarse(feature))


def _name_coarse(feature: Feature) -> str:
    return f"_coarse_{feature.name}"


class _Search:
    """Positions of a feature on the way to their values, by steps that tell ever more apart."""

    def __init__(self, feature: Feature, positions: Sequence[Position], store: GroupedRows) -> None:
        schema = {GROUP: pl.String, _NAME: pl.String, _POSITION: pl.Int64}
        self.found = pl.DataFrame(list(positions), schema=schema, orient="row")
        self._codes = store.codes
        self._value = pl.col(feature.name)
        key = pl.col(_name_coarse(feature))
        self._steps = [key // _DIGIT, key, self._value]  # those ahead
        self._before: pl.Expr | None = None
        self._skip_to_values(store.rows)

    def _skip_to_values(self, rows: int) -> None:
        """Count value by value at once where few rows are left to look at."""
        if rows <= _FEW:
            self._steps = self._steps[-1:]

    @property
    def is_open(self) -> bool:
        """Return True if the values are not yet known."""
        return bool(self._steps)

    def count(self) -> Count:
        """Return the next count: of rows by a step, among those where the step before was found."""
        value, step, before = self._value, self._steps[0], self._before
        if before is not None:
            keys = self.found[_FOUND].unique().to_list()
            few = self._codes.encode_groups(
                self.found.select(GROUP, _FOUND).unique(maintain_order=True)
            )

        def count(rows: Frame) -> Frame:
            rows, bucket = rows.filter(~value.is_null()), pl.lit(0.0)
            if before is not None:
                rows = rows.filter(before.cast(pl.Float64).is_in(keys))  # most, before the join
                rows = rows.join(few.lazy(), on=GROUP)
                rows, bucket = rows.filter(before == pl.col(_FOUND)), pl.col(_FOUND)
            keyed = rows.with_columns(step.cast(pl.Float64).alias(_KEY), bucket.alias(_BUCKET))
            return keyed.group_by(GROUP, _BUCKET, _KEY).agg(pl.len().cast(pl.Int64).alias(_COUNT))

        return count

    def narrow(self, table: pl.DataFrame) -> None:
        """Take the counts: which key holds each position, and the position left within it."""
        bucket = pl.lit(0.0) if self._before is None else pl.col(_FOUND)
        asked = self.found.with_columns(bucket.alias(_BUCKET)).drop(_COUNT, strict=False)
        reached = pl.col(_COUNT).cum_sum().over(GROUP, _BUCKET, order_by=_KEY)
        left = pl.col(_POSITION) - pl.col("_reached") + pl.col(_COUNT)
        self.found = (
            table.with_columns(reached.alias("_reached"))
            .join(asked, on=[GROUP, _BUCKET])
            .filter(pl.col("_reached") >= pl.col(_POSITION))
            .sort(GROUP, _NAME, _KEY)
            .unique([GROUP, _NAME], keep="first", maintain_order=True)
            .select(GROUP, _NAME, pl.col(_KEY).alias(_FOUND), left.alias(_POSITION), _COUNT)
        )
        self._before = self._steps.pop(0)
        if len(self._steps) > 1:
            of_rows = self.found.unique([GROUP, _FOUND])[_COUNT].sum()
            self._skip_to_values(int(of_rows))


RANKED_ROWS = 20_000_000  # beyond that, counting finds a rank in less memory
_KEPT_VALUES = 2_000_000  # of which the values of all features are kept

Floats: TypeAlias = "NDArray[np.float64]"


class SortedGroups:
    """Each feature's values by group, and there in order as far as is asked for.

    `modes` are the features whose most frequent values are told too, when first asked for.
    """

    def __init__(self, store: GroupedRows, modes: Iterable[Feature] = ()) -> None:
        self._store = store
        codes = [part[GROUP].to_numpy() for part in store.parts([GROUP])]
        self._orders = [order_codes(code) for code in codes]
        self._counts = [np.bincount(code, minlength=len(store.groups)) for code in codes]
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
            if len(values) > _KEPT_VALUES:
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
            places = [(name, position - 1) for _, name, position in asked]
            if feature not in self._modes:
                own.partition([place for _, place in places])
            for name, place in places:
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
