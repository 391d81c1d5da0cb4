"""Declare metrics that are the mean or a percentile of a feature, and simple features.

Most metrics are means. The functions at the top are for all metrics: those of a total, or of the
totals of many resamples at once (only the latter load NumPy), and features made of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Metric,
    Need,
    Rank,
    TaskValues,
    Totals,
    centre,
)
from calipers.metrics.declare.interval_methods import OfMean, OrderStatistics, Wilson


def sum_by_group(frame: pl.LazyFrame, columns: Mapping[str, pl.Expr]) -> pl.LazyFrame:
    """Return the sum of each of the columns, a row per group."""
    return frame.with_columns(**columns).group_by(GROUP).agg(pl.col(*columns).sum())


def declare_recorded(name: str) -> Feature:
    """Return the feature that is the record's own number."""
    return Feature(name, (name,), lambda _: pl.col(name))


def declare_part(name: str, of: Feature, part: str, *, dtype: pl.DataType | None = None) -> Feature:
    """Return the feature that is one part of another, whose values are structs."""
    assert isinstance(of.dtype, pl.Struct)
    own = of.dtype.to_schema()[part]
    assert isinstance(own, pl.DataType)
    return Feature(name, (of,), lambda _: pl.col(of.name).struct.field(part), dtype or own)


def map_known(
    column: pl.Expr, work: Callable[[pl.Series], pl.Series], dtype: pl.DataType
) -> pl.Expr:
    """Return `work` on the column, which gives null for null; not called where all is null.

    Most files lack most fields: what the function would load and compile is not needed then.
    """

    def apply(values: pl.Series) -> Any:
        if values.null_count() == len(values):
            return pl.repeat(None, len(values), dtype=dtype, eager=True).alias(values.name)
        return work(values)

    return column.map_batches(apply, return_dtype=dtype)


COUNT = pl.len().cast(pl.Int64)


def declare_sums(feature: Feature, *others: Feature, **totals: pl.Expr) -> Aggregate:
    """Return the aggregate a mean needs: the number of rows with the feature, and their sum.

    Further totals, of this or of other features, are counted beside them.
    """
    name = feature.name
    total = pl.col(name).sum() if feature.dtype.is_float() else sum_whole(feature)
    counted = {f"{name}__n": pl.col(name).count(), f"{name}__sum": total}
    return Aggregate(features=(feature, *others), totals={**counted, **totals})


def sum_whole(feature: Feature) -> pl.Expr:
    """Return the sum of whole numbers, in 64 bits: Polars would add up 32 bits in 32 bits."""
    return pl.col(feature.name).cast(pl.Int64).sum()


def count_true(feature: Feature) -> pl.Expr:
    """Return the number of rows for which a feature is true."""
    return sum_whole(feature)


def count_values(feature: Feature, count: str, **facts: Any) -> Aggregate:
    """Return the aggregate that counts how often each value of a feature occurs."""
    value = pl.col(feature.name)
    return Aggregate(
        features=(feature,),
        keys=(feature.name,),
        where=lambda: ~value.is_null(),
        totals={count: COUNT},
        **facts,
    )


def declare_task_totals(feature: Feature, totals: dict[str, pl.Expr], **facts: Any) -> Aggregate:
    """Return the aggregate of the runs of each task that have a feature, and of their totals."""
    return Aggregate(
        features=(feature,),
        keys=(TASK,),
        where=lambda: ~pl.col(TASK).is_null() & ~pl.col(feature.name).is_null(),
        totals={RUNS: COUNT, **totals},
        **facts,
    )


@cache
def declare_influence(feature: Feature) -> Influence:
    """Return the influence of each row on the feature's mean."""
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"
    return Influence(
        name=feature.name,
        rows=count,
        centre=lambda totals: totals[summed] / totals[count],
        effect=pl.col(feature.name).cast(pl.Float64) - centre(feature.name),
        squares=lambda totals: totals[f"{feature.name}__squares"],
        feature=feature,
    )


def declare_mean(
    feature: Feature,
    *,
    needs: tuple[Need, ...],
    name: str | None = None,
    range: tuple[float, float] | None = None,  # noqa: A002 (the word the catalogue shows)
    complement: bool = False,
    aggregate: Aggregate | None = None,
    **facts: Any,
) -> Metric:
    """Return the metric that is the mean of a feature over rows that have it, or 1 minus it.

    It has the feature's name unless another is given, and that of a flag lies in [0, 1]. `facts`
    are the other fields of `Metric`: its sentence, formula, and whatever it needs.
    """
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"

    def value(totals: Totals) -> float:
        share = totals[summed] / totals[count]
        return 1 - share if complement else share

    def weight(totals: Totals) -> pl.Expr:
        return (pl.col(feature.name).cast(pl.Float64) - totals[summed] / totals[count]).abs()

    is_share = feature.dtype == pl.Boolean
    ends = range or ((0, 1) if is_share else (0, inf))
    return Metric(
        name=name or feature.name,
        needs=needs,
        range=ends,
        aggregate=aggregate or declare_sums(feature),
        rows=count,
        value=value,
        work=f"{'1 − ' if complement else ''}{{{summed}}} / {{{count}}}",
        interval=Wilson(feature.name, count) if is_share else OfMean(feature.name, ends),
        averaged=feature,
        complement=complement,
        influence=declare_influence(feature),
        weight=weight,
        **facts,
    )


def declare_quantile(feature: Feature, percent: int, text: str, **facts: Any) -> Metric:
    """Return the metric that is a percentile of a feature, which people know by this text."""
    rank = Rank(feature=feature, percent=percent)
    share, count = f"{percent / 100:g}", f"{{{rank.count_name}}}"
    return Metric(
        formula=f"{text} at position ⌈{share} n⌉ of n sorted (nearest rank)",
        aggregate=rank,
        rows=rank.count_name,
        value=lambda totals: totals[rank.value_name],
        work=f"the value at position ⌈{share} · {count}⌉ of {count} in ascending order",
        interval=OrderStatistics(rank),
        influence=rank.influence,
        weight=lambda totals: -(pl.col(feature.name) - totals[rank.value_name]).abs(),
        **facts,
    )


@cache
def weigh_tasks(metric: Metric) -> Metric | None:
    """Return the metric as the mean of the tasks' means, or None if it is not a mean over rows.

    Every task then counts alike, however many runs it has.
    """
    feature = metric.averaged
    if not isinstance(feature, Feature) or metric.influence is not declare_influence(feature):
        return None
    assert isinstance(metric.aggregate, Aggregate)
    value, tasks = f"{metric.name}_of_task", f"{metric.name}_of_tasks"
    step = partial(_add_task_mean, value=value, complement=metric.complement)
    return replace(
        metric,
        formula=f"mean over tasks of the mean over a task's runs: {metric.formula}",
        aggregate=declare_task_totals(
            feature,
            {"summed": pl.col(feature.name).cast(pl.Float64).sum()},
            every_task=True,
            tasks=(TaskValues(name=tasks, step=step, values=(value,)),),
        ),
        also=(*metric.also, metric.aggregate),  # what is shown beside the value
        rows=f"{tasks}__tasks",
        used=f"{tasks}__rows",
        value=lambda totals: totals[f"{value}__sum"] / totals[f"{tasks}__tasks"],
        work=f"{{{value}__sum}} / {{{tasks}__tasks}}, the sum of the tasks' means over the tasks",
        interval=OfMean(value, metric.range, unit="task"),
        yes_or_no=metric.yes_or_no and weigh_tasks(metric.yes_or_no),
        averaged=value,
        complement=False,
        influence=None,
        weight=None,
    )


def _add_task_mean(tasks: Frame, value: str, *, complement: bool) -> Frame:
    mean = pl.col("summed") / pl.col(RUNS)
    return tasks.with_columns((1 - mean if complement else mean).alias(value))
