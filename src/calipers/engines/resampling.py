"""Intervals by the bootstrap over a group's clusters, and every metric under weights.

The totals of a group are sums over its clusters, so a weighted group is a matrix product away, and
the declared steps and formulas turn weighted totals into values, with a resample in the place of a
group. Only ranks are looked up in sorted rows. Paired comparisons use the same weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Self, cast
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calipers.engines.cluster_variance import (
    add_effects,
    join_table,
    list_centres,
    select_key_totals,
)
from calipers.engines.plan import FAILED, Plan
from calipers.engines.totals import merge_plain, sum_by_keys, sum_keys
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Rank,
    TaskValues,
    Totals,
)
from calipers.statistics.bootstrap import Seed, bca, count_blocks, draw_block, explain_too_few
from calipers.statistics.intervals import Interval
from calipers.support.timing import say_duration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Columns = Mapping[str, Floats]

CODE = "_code"  # a row's cluster, from 0
_KEYED_CELLS = 1 << 21
_RANKED_CELLS = 1 << 22
_BAND = 8  # standard errors around a rank: no resample has it outside


@dataclass(frozen=True)
class Linear:
    """Totals that are sums over clusters."""

    names: Sequence[str]
    per_cluster: Floats

    @classmethod
    def of(cls, table: pl.DataFrame, names: Collection[str], clusters: int) -> Self:
        """Take totals of a table in which the code of a cluster stands in the place of a group."""
        per_cluster = np.zeros((clusters, len(names)))
        if names:
            values = table.select(pl.col(*names).cast(pl.Float64).fill_null(0)).to_numpy()
            per_cluster[table[GROUP].to_numpy()] = values
        return cls(list(names), per_cluster)

    def __call__(self, weighted: Floats) -> Columns:
        """Return the totals in each resample."""
        sums = weighted @ self.per_cluster
        return {name: sums[:, column] for column, name in enumerate(self.names)}


@dataclass(frozen=True)
class _Keyed:
    """Totals per key, and what the aggregate makes of them."""

    aggregate: Aggregate
    keys: pl.DataFrame
    at: Ints  # of each cell: the number of its key
    clusters: Ints
    cells: Sequence[Floats]  # for each total

    def __call__(self, weighted: Floats) -> Columns:
        at_once = max(1, _KEYED_CELLS // max(1, self.keys.height))
        pieces = [
            self._evaluate_some(weighted[start : start + at_once])
            for start in range(0, len(weighted), at_once)
        ]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _evaluate_some(self, weighted: Floats) -> Columns:
        rows = len(weighted)
        totals = [self._weigh(cells, weighted) for cells in self.cells]
        present = totals[0] > 0  # the first total counts the rows
        number, key = np.divmod(np.flatnonzero(present), self.keys.height)
        columns = (total[present] for total in totals)
        frame = self.keys[key].with_columns(
            pl.Series(GROUP, number).set_sorted(),  # so that groups are added up in this order
            **dict(zip(self.aggregate.totals, map(pl.Series, columns), strict=True)),
        )
        every = pl.DataFrame({GROUP: np.arange(rows)})
        finished_columns: dict[str, Floats] = {}
        for step in self.aggregate.finish:
            finished = _collect_in_order(step(frame.lazy()))
            table = every.join(finished, on=GROUP, how="left", maintain_order="left")
            finished_columns |= {
                name: table[name].cast(pl.Float64).fill_null(0).to_numpy()
                for name in table.columns
                if name != GROUP
            }
        return finished_columns

    def _weigh(self, cells: Floats, weighted: Floats) -> Floats:
        """Return the total of each key in each resample, one resample after the other."""
        height = self.keys.height
        sums = [
            np.bincount(self.at, cells * weights[self.clusters], height) for weights in weighted
        ]
        return np.concatenate(sums)


@dataclass(frozen=True)
class _Ranked:
    """A rank among weighted values, the largest first."""

    rank: Rank
    values: Floats
    codes: NDArray[np.int64]
    band: slice  # of the values: where the rank lies in nearly all resamples
    counts: Floats  # of each cluster: its values, and those before the band

    def __call__(self, weighted: Floats) -> Columns:
        totals, before = (weighted @ self.counts).T
        above = totals + np.floor_divide(-self.rank.percent * totals, 100)  # n − ⌈percent·n/100⌉
        values = self._find_beyond(weighted, above - before, self.band)
        missing = np.isnan(values) & (totals > 0)
        if missing.any():
            everywhere = slice(0, len(self.values))
            values[missing] = self._find_beyond(weighted[missing], above[missing], everywhere)
        return {self.rank.value_name: values, self.rank.count_name: totals}

    def _find_beyond(self, weighted: Floats, left: Floats, band: slice) -> Floats:
        """Return the first value of the band that more than `left` of its values reach.

        NaN where values before the band reach that far, or those within it do not.
        """
        quantiles = np.full(len(weighted), np.nan)
        size = band.stop - band.start
        at_once = max(1, _RANKED_CELLS // max(1, size))  # rows may be many more than clusters
        for start in range(0, len(weighted) if size else 0, at_once):
            some = slice(start, start + at_once)
            beyond = np.cumsum(weighted[some].T[self.codes[band]], axis=0) > left[some]
            reached = self.values[band][beyond.argmax(axis=0)]
            quantiles[some] = np.where(beyond.any(axis=0) & (left[some] >= 0), reached, np.nan)
        return quantiles


class WeightedValues:
    """Some metrics of one group under weights of its clusters."""

    def __init__(self, rows: pl.DataFrame, metrics: Sequence[Metric], clusters: int) -> None:
        """Take rows of the compact table, each with the `CODE` of its cluster."""
        self.metrics = metrics
        self.clusters = clusters
        used = rows.filter(~pl.col(FAILED))
        aggregates = dict.fromkeys(measure for metric in metrics for measure in metric.measures)
        plain = merge_plain(
            aggregate for aggregate in aggregates if isinstance(aggregate, Aggregate)
        )
        linear = Linear.of(_sum_clusters(used, plain), plain.totals.keys(), clusters)
        self._parts: list[Callable[[Floats], Columns]] = [linear]
        for aggregate in aggregates:
            if isinstance(aggregate, Rank):
                self._parts.append(_make_ranked(used, aggregate, clusters))
            elif aggregate.keys and TASK not in aggregate.keys:
                self._parts.append(_make_keyed(used, aggregate))
            elif aggregate.keys:
                self._parts += (
                    sum_task_clusters(used, aggregate, values, clusters)
                    for values in aggregate.tasks
                )

    def __call__(self, weighted: Floats) -> dict[str, Floats]:
        """Return each metric's value in each resample; NaN without one."""
        totals: dict[str, Floats] = {}
        estimates: dict[str, Floats] = {}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for part in self._parts:
                totals |= part(weighted)
            for metric in self.metrics:
                values = np.asarray(metric.value(cast("Totals", totals)), dtype=np.float64)
                estimates[metric.name] = np.where(totals[metric.rows] > 0, values, np.nan)
        return estimates

    def totals(self) -> dict[str, float]:
        """Return the totals with every cluster once."""
        once = np.ones((1, self.clusters))
        columns = {name: column for part in self._parts for name, column in part(once).items()}
        return {name: float(column[0]) for name, column in columns.items()}

    def resample(self, resamples: int, seed: Seed) -> dict[str, Floats]:
        """Return each metric's values in that many resamples of the clusters."""

        def of_block(number: int) -> dict[str, Floats]:
            return self(draw_block(self.clusters, resamples, seed, number))

        count, threads = count_blocks(self.clusters, resamples), min(8, os.cpu_count() or 1)
        started = monotonic()
        blocks = [of_block(0)]
        say_duration(
            f"{resamples:,} resamples of {self.clusters:,} tasks or clusters",
            (monotonic() - started) * (count - 1) / min(threads, max(1, count - 1)),
        )
        with ThreadPoolExecutor(threads) as pool:
            blocks += pool.map(of_block, range(1, count))
        return {
            metric.name: np.concatenate([block[metric.name] for block in blocks])
            for metric in self.metrics
        }


def _sum_clusters(rows: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return the aggregate's totals with a cluster in the place of a group."""
    coded = rows.with_columns(pl.col(CODE).alias(GROUP))
    if not aggregate.keys or coded[GROUP].n_unique() < coded.height:
        return _collect_in_order(sum_keys(coded.lazy(), aggregate), *aggregate.keys)
    if aggregate.where is not None:
        coded = coded.filter(aggregate.where())
    coded = coded.sort(GROUP)  # a row each, of one key: to group by clusters alone is quicker
    alone = replace(aggregate, keys=(), where=None)
    sums = _collect_in_order(sum_keys(coded.lazy(), alone))
    return sums.with_columns(coded.select(aggregate.keys))


def _make_keyed(rows: pl.DataFrame, aggregate: Aggregate) -> _Keyed:
    table = _sum_clusters(rows, aggregate)
    keys = table.select(aggregate.keys).unique().sort(aggregate.keys).with_row_index("_number")
    places = table.join(keys, on=list(aggregate.keys), maintain_order="left")
    cells = [places[name].cast(pl.Float64).to_numpy() for name in aggregate.totals]
    at, clusters = (places[name].cast(pl.Int64).to_numpy() for name in ("_number", GROUP))
    return _Keyed(aggregate, keys, at, clusters, cells)


def sum_task_clusters(
    rows: pl.DataFrame, aggregate: Aggregate, values: TaskValues, clusters: int
) -> Linear:
    """Return the number of tasks in each cluster, their rows, and the sum of each value."""
    table = _collect_in_order(sum_keys(rows.lazy(), aggregate), *aggregate.keys)
    tasks = _collect_in_order(values.step(table.lazy()), TASK)
    codes = rows.group_by(TASK).agg(pl.col(CODE).min())
    per_task = tasks.join(codes, on=TASK, maintain_order="left")
    names = {
        f"{values.name}__tasks": pl.len(),
        f"{values.name}__rows": pl.col(RUNS).sum(),
        **{f"{name}__sum": pl.col(name).sum() for name in values.values},
    }
    sums = per_task.group_by(pl.col(CODE).alias(GROUP), maintain_order=True).agg(**names)
    return Linear.of(sums, names, clusters)


def _make_ranked(rows: pl.DataFrame, rank: Rank, clusters: int) -> _Ranked:
    feature: Feature = rank.feature
    known = rows.select(feature.name, CODE).drop_nulls(feature.name)
    known = known.sort(feature.name, CODE, descending=True)
    n = known.height
    share = 1 - rank.percent / 100
    reach = _BAND * (n * share * (1 - share)) ** 0.5
    band = slice(max(0, int(n * share - reach)), min(n, round(n * share + reach) + 1))
    codes = known[CODE].to_numpy().astype(np.int64)
    counts = [np.bincount(some, minlength=clusters) for some in (codes, codes[: band.start])]
    values = known[feature.name].to_numpy()
    return _Ranked(rank, values, codes, band, np.stack(counts, axis=1).astype(np.float64))


def add_codes(rows: pl.DataFrame, cluster: str) -> pl.DataFrame:
    """Return the rows with a number per cluster, from 0; a row without one gets its own."""
    own = pl.int_range(pl.len(), dtype=pl.Int64)
    known = pl.when(pl.col(cluster).is_null()).then(own)
    return rows.with_columns(
        (pl.struct(cluster, known.alias("_own")).rank("dense") - 1).cast(pl.Int64).alias(CODE)
    )


def _collect_in_order(frame: Frame, *keys: str) -> pl.DataFrame:
    """Return the table in order; sorted any earlier, Polars would add numbers in no order."""
    return frame.collect(engine="in-memory").sort(GROUP, *keys)


_NONE = np.empty(0)


@dataclass(frozen=True)
class Resampled:
    """What resampling one group gives: intervals, and why there are none for some metrics."""

    intervals: Mapping[str, Interval]
    refused: Mapping[str, str]


def bootstrap(
    rows: pl.DataFrame, plan: Plan, totals: Mapping[str, float], seed: Sequence[int]
) -> Resampled:
    """Return each metric's interval by the bootstrap over the clusters of one group's rows.

    The order of the rows makes no difference, so that all engines give the same numbers.
    """
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]
    coded = add_codes(rows.sort(list(dict.fromkeys((cluster, TASK, *features)))), cluster)
    metrics = [
        metric
        for metric in plan.metrics
        if totals.get(metric.rows) and not (metric.refused and metric.refused(totals))
    ]
    clusters = int(coded[CODE].max()) + 1 if coded.height else 0  # type: ignore[arg-type]
    moved = _measure_influences(coded, plan, totals)
    # Influences are those on the mean, and on the share of values up to the rank: where these
    # grow, 1 − the mean and the value at the rank fall.
    influences = {
        metric: -by if metric.complement or isinstance(metric.aggregate, Rank) else by
        for metric in metrics
        for by in (moved.get(_name_influence(metric), _NONE),)
    }
    refused = {
        metric.name: why
        for metric in metrics
        if (why := metric.not_resampled or explain_too_few(influences[metric])) is not None
    }
    kept = [metric for metric in metrics if metric.name not in refused]
    resampled = WeightedValues(coded, kept, clusters).resample(plan.resamples, seed) if kept else {}
    intervals: dict[str, Interval] = {}
    for metric in kept:
        around = bca(
            float(metric.value(totals)), resampled[metric.name], influences[metric], plan.confidence
        )
        if around is None:
            refused[metric.name] = "every resample gives the same value"
        else:
            intervals[metric.name] = around
    return Resampled(intervals, refused)


def make_seed(plan: Plan, group: str) -> tuple[int, int]:
    """Return the seed of a group's resamples."""
    return plan.seed, crc32(group.encode())


def _name_influence(metric: Metric) -> Any:
    return metric.influence.name if metric.influence else metric.averaged


def _measure_influences(
    rows: pl.DataFrame, plan: Plan, totals: Mapping[str, float]
) -> dict[Any, Floats]:
    """Return how far each cluster moves each value, up to a factor."""
    sums = _sum_effects(rows, plan.influences, plan.aggregates, totals)
    moved: dict[Any, Floats] = {
        influence.name: sums[influence.name].cast(pl.Float64).to_numpy()
        for influence in plan.influences
    }
    for aggregate in plan.aggregates:
        for values in aggregate.tasks:
            linear = sum_task_clusters(rows.filter(~pl.col(FAILED)), aggregate, values, sums.height)
            tasks = linear.per_cluster[:, 0]
            for column, name in enumerate(values.values, start=2):
                own = linear.per_cluster[:, column]
                moved[name] = own - tasks * own.sum() / max(1.0, tasks.sum())
    return moved


def measure_influences(
    rows: pl.DataFrame, metric: Metric, totals: Mapping[str, float], clusters: int
) -> Floats:
    """Return how far each cluster moves a metric that has an influence, up to a factor."""
    assert metric.influence is not None
    used = rows.filter(~pl.col(FAILED)).with_columns(pl.lit("").alias(GROUP))
    aggregates = [measure for measure in metric.measures if isinstance(measure, Aggregate)]
    sums = _sum_effects(used, [metric.influence], aggregates, totals)
    moved = np.zeros(clusters)
    moved[sums[CLUSTER].to_numpy()] = sums[metric.influence.name].cast(pl.Float64).to_numpy()
    return moved


def _sum_effects(
    rows: pl.DataFrame,
    influences: Sequence[Influence],
    aggregates: Sequence[Aggregate],
    totals: Mapping[str, float],
) -> pl.DataFrame:
    """Return the sum of each influence's effects within each cluster, in the clusters' order."""
    coded = rows.with_columns(pl.col(CODE).alias(CLUSTER))
    groups = {str(rows[GROUP][0]): dict(totals)}
    read = [
        aggregate for aggregate in aggregates if any(aggregate is one.keyed for one in influences)
    ]
    # In order: what follows adds up over the keys.
    tables = {aggregate: sum_by_keys(coded, aggregate).lazy() for aggregate in read}
    beside = select_key_totals(tables, influences)
    centres = list_centres(influences, groups)
    moved = add_effects(coded.lazy(), influences, centres, beside, join_table)
    by_cluster = moved.group_by(CLUSTER).agg(pl.exclude(GROUP, CLUSTER).sum())
    return by_cluster.collect(engine="in-memory").sort(CLUSTER)
