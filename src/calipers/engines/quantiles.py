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
from itertools import pairwise
from math import nan
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from calipers.engines.group_codes import FEW_GROUPS, Codes, order_codes
from calipers.engines.group_totals import GroupTotals, ManyGroups, list_blocks
from calipers.engines.store import GroupedRows
from calipers.engines.totals import Sum, collect_sorted
from calipers.metrics.declare.columns import Columns, remove_where
from calipers.metrics.declare.declaration import GROUP, Feature, Frame, Rank
from calipers.metrics.declare.distributions import list_positions, name_mode
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.families.cost import TIER
from calipers.statistics.elementwise import choose, is_anywhere
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

Positions: TypeAlias = "tuple[str, NDArray[Any], NDArray[Any]]"
"""Places, from 1, among the values of groups: a name, the groups' numbers, the place in each."""


Values: TypeAlias = "tuple[str, NDArray[Any], NDArray[np.float64]]"
"""A name, the numbers of groups, and a value of each."""


def locate_ranks(
    groups: GroupTotals, rank: Rank, confidence: float, codes: Codes
) -> Iterator[Positions]:
    """Yield each group's position of the rank, and of its bounds if rows are independent."""
    numbers, counts = _count_values(groups, rank.feature, codes)
    yield rank.value_name, numbers, rank.locate(counts)
    yield from _locate_bounds(rank, numbers, counts, counts.astype(np.float64), confidence)


def locate_clustered_ranks(
    groups: GroupTotals, rank: Rank, confidence: float, codes: Codes
) -> Iterator[Positions]:
    """Yield the positions of the bounds in groups whose rows come in clusters."""
    numbers, counts = _count_values(groups, rank.feature, codes)
    sizes = np.concatenate(
        [np.empty(0), *(_remove_clustered(totals, rank) for totals in list_blocks(groups))]
    )
    if isinstance(groups, ManyGroups):
        sizes = sizes[numbers]
    else:
        sizes = sizes[[bool(totals.get(rank.count_name)) for totals in groups.values()]]
    some = ~np.isnan(sizes)
    yield from _locate_bounds(rank, numbers[some], counts[some], sizes[some], confidence)


def _remove_clustered(totals: Any, rank: Rank) -> NDArray[np.float64]:
    """Take bounds from groups with clusters of rows; return these groups' effective sizes."""
    count = totals.get(rank.count_name, 0)
    spread, clusters = read_spread(rank.influence.name, totals)
    is_clustered = (clusters.count < count) & (count != 0)
    if not is_anywhere(is_clustered):
        return np.full(totals.rows if isinstance(totals, Columns) else 1, np.nan)
    for name in (rank.low_name, rank.high_name):
        remove_where(totals, name, is_clustered)
    size = effective_size(rank.percent / 100, count, spread, clusters)
    return np.atleast_1d(choose(is_clustered, size, nan))


def locate_described(groups: GroupTotals, feature: Feature, codes: Codes) -> Iterator[Positions]:
    """Yield where in each group the statistics of a feature are among its sorted values."""
    numbers, counts = _count_values(groups, feature, codes)
    for name, position in list_positions(feature.name, counts).items():
        yield name, numbers, np.broadcast_to(position, counts.shape)


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
    rank: Rank,
    numbers: NDArray[Any],
    counts: NDArray[Any],
    sizes: NDArray[Any],
    confidence: float,
) -> Iterator[Positions]:
    found = [
        quantile_ranks(rank.percent / 100, count, size, confidence)
        for count, size in zip(counts.tolist(), sizes.tolist(), strict=True)
    ]
    ends = np.array([(low or 0, high or 0) for low, high in found], dtype=np.int64).reshape(-1, 2)
    for name, positions in zip((rank.low_name, rank.high_name), ends.T, strict=True):
        known = positions > 0
        yield name, numbers[known], positions[known]


def _count_values(
    groups: GroupTotals, feature: Feature, codes: Codes
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the numbers of the groups that have values of a feature, and how many each has."""
    name = f"{feature.name}__n"
    if isinstance(groups, ManyGroups):
        counts = np.asarray(groups.columns.get(name, np.zeros(len(groups), dtype=np.int64)))
        numbers = np.flatnonzero(counts)
        return numbers, counts[numbers]
    having = [(codes.number(text), int(totals.get(name) or 0)) for text, totals in groups.items()]
    table = np.array(having, dtype=np.int64).reshape(-1, 2)
    table = table[table[:, 1] > 0]
    return table[:, 0], table[:, 1]


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

    def select(self, wanted: Mapping[Feature, Sequence[Positions]]) -> Iterator[Values]:
        """Yield each feature's values at some positions."""
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
            for feature, table in value_counts.tables.items():
                due[feature].narrow(table)
        for search in searches.values():
            for [name], found in search.found.group_by([_NAME], maintain_order=True):
                yield name, found[GROUP].to_numpy(), found[_FOUND].to_numpy()


class ValueCounts:
    """Features' counts over all parts, added up as they come."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._sums = {feature: Sum([GROUP, _BUCKET, _KEY]) for feature in features}

    def add(self, tables: Iterable[pl.DataFrame]) -> None:
        """Take the counts over one more part, of each feature."""
        for running, table in zip(self._sums.values(), tables, strict=True):
            running.add(table)

    @property
    def tables(self) -> dict[Feature, pl.DataFrame]:
        """Each feature's counts, by the numbers of the groups."""
        return {feature: running.table for feature, running in self._sums.items()}


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

    def __init__(
        self, feature: Feature, positions: Sequence[Positions], store: GroupedRows
    ) -> None:
        schema = {GROUP: pl.Int32, _NAME: pl.String, _POSITION: pl.Int64}
        self.found = pl.concat(
            [
                pl.DataFrame(schema=schema),
                *(
                    pl.DataFrame({GROUP: numbers, _POSITION: places})
                    .select(GROUP, pl.lit(name).alias(_NAME), _POSITION)
                    .cast(schema)  # type: ignore[arg-type]
                    for name, numbers, places in positions
                ),
            ]
        )
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
            few = self.found.select(GROUP, _FOUND).unique(maintain_order=True)

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
                if len(column) == len(values):
                    values[:] = column
                    continue
                taken = 0
                for code in np.flatnonzero(counts):
                    place, count = places[code], counts[code]
                    values[place : place + count] = column[taken : taken + count]
                    taken += count
                places += counts
            if self._is_sorted(feature):
                for start, end in pairwise(self._starts.tolist()):
                    values[start:end].sort()
            if len(values) > _KEPT_VALUES:
                self._gathered.clear()
            self._gathered[feature] = values  # the last one, if not all, is often asked for again
        return self._gathered[feature]

    def _is_sorted(self, feature: Feature) -> bool:
        """Say whether all values are put in order: small groups are sooner sorted than cut."""
        return feature in self._modes or len(self._starts) > FEW_GROUPS

    def select(self, wanted: Mapping[Feature, Sequence[Positions]]) -> Iterator[Values]:
        """Yield features' values at some positions, and modes."""
        for feature, positions in wanted.items():
            if any(len(numbers) for _, numbers, _ in positions):
                yield from self._select(feature, positions)
            if feature in self._untold:
                self._untold.remove(feature)
                yield self._find_modes(feature)

    def _select(self, feature: Feature, positions: Sequence[Positions]) -> Iterator[Values]:
        values = self._gather(feature)
        if not self._is_sorted(feature):
            places: dict[int, list[int]] = {}
            for _, numbers, asked in positions:
                for code, position in zip(numbers.tolist(), asked.tolist(), strict=True):
                    places.setdefault(code, []).append(position - 1)
            for code, wanted in places.items():
                values[self._starts[code] : self._starts[code + 1]].partition(wanted)
        for name, numbers, asked in positions:
            yield name, numbers, values[self._starts[numbers] + asked - 1]

    def _find_modes(self, feature: Feature) -> Values:
        """Return each group's most frequent value, the smallest of equals."""
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
        numbers = np.flatnonzero(most)
        return name_mode(feature), numbers, values[begins[first_winner[numbers]]]
