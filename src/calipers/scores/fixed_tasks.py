"""Intervals for exactly these tasks (`--tasks fixed`), from the totals of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from calipers.engines.spreads import name_repeated_tasks, name_within_tasks
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import Totals
from calipers.metrics.declare.intervals import name_one_cluster
from calipers.scores.results import Group, Measured
from calipers.statistics.intervals import UNKNOWN, Interval
from calipers.statistics.task_means import fixed_interval

FIXED = "fixed tasks"


def add_fixed_intervals(
    group: Group, totals: Totals, metrics: Sequence[Metric], confidence: float
) -> Group:
    """Return the group with intervals from the noise of runs alone, null where it is unknown."""
    of_metric = {metric.name: metric for metric in metrics}
    found = {
        name: _replace_interval(each, of_metric[name], totals, confidence)
        for name, each in group.metrics.items()
    }
    return replace(group, metrics=found)


def _replace_interval(
    measured: Measured, metric: Metric, totals: Totals, confidence: float
) -> Measured:
    if measured.value is None:
        return measured
    found = _find_interval(measured.value, metric, totals, confidence)
    known, around = found is not None, found or UNKNOWN
    needed = "fixed tasks take a mean over rows, and two runs or more of every task"
    return replace(
        measured,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=FIXED if known else None,
        interval_reason=None if known else needed,
        scope="tasks at hand" if known else None,
        worth=None,
    )


def _find_interval(
    value: float, metric: Metric, totals: Totals, confidence: float
) -> Interval | None:
    influence = metric.influence
    if influence is None:
        return None
    name = influence.name
    rows = int(totals.get(influence.rows, 0))
    tasks = 1 if totals.get(name_one_cluster(name)) else int(totals.get(f"{name}__clusters", 0))
    if not tasks or int(totals.get(name_repeated_tasks(name), 0)) < tasks:
        return None
    per = totals[influence.per] if influence.per else rows
    low, high = metric.range
    return fixed_interval(
        value,
        max(0.0, totals[name_within_tasks(name)]) / (per * per),
        rows=rows,
        freedom=max(1, rows - tasks),
        bounds=(low, high) if isfinite(high - low) else None,
        confidence=confidence,
    )
