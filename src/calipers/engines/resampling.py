"""Intervals by the bootstrap over a group's clusters, and how far each cluster moves a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from calipers.engines.plan import FAILED, Plan
from calipers.engines.spreads import add_effects, join_table, select_key_totals
from calipers.engines.steps import sum_by_keys
from calipers.engines.weighted_values import (
    CODE,
    Floats,
    WeightedValues,
    add_codes,
    sum_tasks,
)
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK, Aggregate, Rank
from calipers.metrics.declare.influence import Influence
from calipers.statistics.bootstrap import bca, explain_too_few
from calipers.statistics.intervals import Interval
from calipers.support.quick_dataclasses import dataclass

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
    metrics = [metric for metric in plan.metrics if totals.get(metric.rows)]
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
    found = WeightedValues(coded, kept, clusters).resample(plan.resamples, seed) if kept else {}
    intervals: dict[str, Interval] = {}
    for metric in kept:
        around = bca(
            float(metric.value(totals)), found[metric.name], influences[metric], plan.confidence
        )
        if around is None:
            refused[metric.name] = "every resample gives the same value"
        else:
            intervals[metric.name] = around
    return Resampled(intervals, refused)


def seed_of(plan: Plan, group: str) -> tuple[int, int]:
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
        each.name: sums[each.name].cast(pl.Float64).to_numpy() for each in plan.influences
    }
    for aggregate in plan.aggregates:
        for values in aggregate.tasks:
            linear = sum_tasks(rows.filter(~pl.col(FAILED)), aggregate, values, sums.height)
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
    aggregates = [each for each in metric.measures if isinstance(each, Aggregate)]
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
    read = [each for each in aggregates if any(each is one.keyed for one in influences)]
    # In order: what follows adds up over the keys.
    tables = {each: sum_by_keys(coded, each).lazy() for each in read}
    beside = select_key_totals(tables, influences)
    moved = add_effects(coded.lazy(), influences, groups, beside, join_table)
    by_cluster = moved.group_by(CLUSTER).agg(pl.exclude(GROUP, CLUSTER).sum())
    return by_cluster.collect(engine="in-memory").sort(CLUSTER)
