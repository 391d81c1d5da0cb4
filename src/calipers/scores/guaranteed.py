"""`--guarantee`: intervals of a score that hold for any shape of the values, at any number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose, isfinite

import polars as pl

from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK
from calipers.metrics.declare.interval_methods import OrderStatistics, Wilson
from calipers.records.batch import Source
from calipers.scores.options import Options
from calipers.scores.result import Group, Measured
from calipers.scores.task_values import VALUE, TaskRows, measure_tasks, read_task_rows
from calipers.statistics.clusters import Floats
from calipers.statistics.guarantee import UNEQUAL, average_clusters, guarantee_mean

_ENDLESS = "no interval is guaranteed for values without an end"
_NO_MEAN = "no interval is guaranteed for it: it is no mean over tasks"
OTHER_MEAN = "numbers of runs are unequal, and the guarantee is for tasks: --weight task"
_ROUNDING = 1e-9


def guarantee_groups(
    groups: Mapping[str, Group],
    metrics: Sequence[Metric],
    sources: Sequence[Source],
    options: Options,
) -> dict[str, Group]:
    """Return the groups with guaranteed intervals; a bound that nothing guarantees is null.

    Tasks are taken as independent draws of the tasks there could be, or clusters of equal size.
    """
    bare = replace(
        options, per_sample=None, per_task=None, bad_rows=None, weight=None, guarantee=False
    )
    rows = read_task_rows(list(sources), bare, paired=False)
    of_metric = {metric.name: metric for metric in metrics}
    found = {}
    for text, group in groups.items():
        own = replace(rows, rows=rows.rows.filter(pl.col(GROUP) == text))
        measured = {
            name: _guarantee(each, of_metric.get(name), own, options)
            for name, each in group.metrics.items()
        }
        found[text] = replace(group, metrics=measured)
    return found


def _guarantee(
    measured: Measured, metric: Metric | None, rows: TaskRows, options: Options
) -> Measured:
    if measured.value is None or metric is None:
        return measured
    is_exact = rows.is_one_per_task and options.cluster is None  # of order statistics
    if isinstance(metric.interval, OrderStatistics) and is_exact:
        return measured
    values = _list_values(measured.value, metric, rows, options)
    if isinstance(values, str):
        return replace(
            measured, low=None, high=None, interval=None, interval_reason=values, worth=None
        )
    around = guarantee_mean(
        values,
        ends=metric.range,
        confidence=options.confidence,
        is_share=isinstance(metric.interval, Wilson) and rows.is_one_per_task,
    )
    return replace(
        measured,
        low=min(measured.value, around.low),
        high=max(measured.value, around.high),
        interval=around.method,
        interval_reason=None,
        worth=None,
    )


def _list_values(value: float, metric: Metric, rows: TaskRows, options: Options) -> Floats | str:
    """Return the values, of tasks or clusters, that the value is the mean of; or why not."""
    tasks = measure_tasks(rows, _find_unweighed(rows, metric))
    if tasks is None:
        return _NO_MEAN
    if not all(map(isfinite, metric.range)):
        return _ENDLESS
    clusters = None
    if options.cluster is not None:
        known = rows.rows.group_by(TASK).agg(pl.col(CLUSTER).min())
        joined = tasks.join(known, on=TASK, how="left", maintain_order="left")
        clusters = joined.select(pl.coalesce(CLUSTER, TASK)).to_series().to_numpy()
    values = average_clusters(tasks[VALUE].to_numpy(), clusters)
    if values is None:
        return UNEQUAL
    same = isclose(float(values.mean()), value, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return values if same else OTHER_MEAN


def _find_unweighed(rows: TaskRows, metric: Metric) -> Metric:
    """Return the metric over rows, where tasks were weighed alike: its tasks are the same."""
    return next((each for each in rows.plan.metrics if each.name == metric.name), metric)
