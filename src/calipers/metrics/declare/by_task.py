"""A mean over rows as a mean over tasks: every task counts alike, however many runs it has."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import (
    RUNS,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Metric,
    TaskValues,
)
from calipers.metrics.declare.intervals import OfMean
from calipers.metrics.declare.means import declare_influence


def weigh_tasks(metric: Metric) -> Metric | None:
    """Return the metric as the mean of the tasks' means, or None if it is not a mean over rows."""
    feature = metric.averaged
    if not isinstance(feature, Feature) or metric.influence is not declare_influence(feature):
        return None
    assert isinstance(metric.aggregate, Aggregate)
    value, tasks = f"{metric.name}_of_task", f"{metric.name}_of_tasks"
    step = partial(_add_task_mean, value=value, complement=metric.complement)
    return replace(
        metric,
        formula=f"mean over tasks of the mean over a task's runs: {metric.formula}",
        aggregate=_declare_by_task(feature, TaskValues(name=tasks, step=step, values=(value,))),
        also=(*metric.also, metric.aggregate),  # what is shown beside the value
        rows=f"{tasks}__tasks",
        used=f"{tasks}__rows",
        value=lambda totals: totals[f"{value}__sum"] / totals[f"{tasks}__tasks"],
        work=f"{{{value}__sum}} / {{{tasks}__tasks}}, the sum of the tasks' means over the tasks",
        interval=OfMean(value, metric.range, unit="task"),
        others=metric.others,
        yes_or_no=None if metric.yes_or_no is None else weigh_tasks(metric.yes_or_no),
        averaged=value,
        complement=False,
        influence=None,
        weight=None,
    )


def _declare_by_task(feature: Feature, values: TaskValues) -> Aggregate:
    known = pl.col(feature.name)
    return Aggregate(
        features=(feature,),
        keys=(TASK,),
        where=lambda: ~pl.col(TASK).is_null() & ~known.is_null(),
        totals={RUNS: pl.len().cast(pl.Int64), "summed": known.cast(pl.Float64).sum()},
        every_task=True,
        tasks=(values,),
    )


def _add_task_mean(tasks: Frame, value: str, *, complement: bool) -> Frame:
    mean = pl.col("summed") / pl.col(RUNS)
    return tasks.with_columns((1 - mean if complement else mean).alias(value))
