"""The range and step of differences between two systems on a task, from a metric's declaration."""

from __future__ import annotations

from math import isfinite

from calipers.metrics.declare.declaration import Metric
from calipers.metrics.declare.intervals import Wilson
from calipers.statistics.paired_tasks import ValueScale


def pair_scale(metric: Metric) -> ValueScale:
    """Return how far two values of a task can lie apart, and what one run can do to one."""
    low, high = metric.range
    reach = high - low if isfinite(high - low) else None
    return ValueScale(
        yes_or_no=isinstance(metric.interval, Wilson),
        reach=reach,
        step=None if reach is None else metric.step * reach,
        higher_is_better=None if metric.better is None else metric.better == "higher",
    )
