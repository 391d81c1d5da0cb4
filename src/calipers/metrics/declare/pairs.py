"""What a metric's declaration says about differences between two runs of a task."""

from __future__ import annotations

from math import isfinite

import polars as pl

from calipers.metrics.declare.declaration import Feature, Metric
from calipers.metrics.declare.intervals import Wilson
from calipers.statistics.paired_tasks import ValueScale


def pair_scale(metric: Metric) -> ValueScale:
    """Return how far two values of a task can lie apart, and what one run can do to one."""
    low, high = metric.range
    reach = high - low if isfinite(high - low) else None
    yes_or_no = isinstance(metric.averaged, Feature) and metric.averaged.dtype == pl.Boolean
    a_share = isinstance(metric.interval, Wilson)
    step = reach if reach is None or yes_or_no or a_share else reach / 2
    return ValueScale(
        yes_or_no=a_share,
        reach=reach,
        step=step,
        higher_is_better=None if metric.better is None else metric.better == "higher",
    )
