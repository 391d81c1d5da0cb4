"""Checks that every comparison makes on its two sides."""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.comparisons.results import MetricComparison
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import CLUSTER, TASK
from calipers.metrics.declare.intervals import Wilson
from calipers.scores.options import Options
from calipers.scores.tasks import TaskRows
from calipers.statistics.arrays import Floats, Whole

NO_PAIR = "no pair has the value"
TOO_LARGE = "values too large"

_LARGEST = 1e150  # squares of larger values are beyond a double
_FEWEST_RESAMPLES = 1_000


def make_null(reason: str, n_pairs: int | None = None) -> MetricComparison:
    """Return a comparison without a difference, and why."""
    return MetricComparison(
        base=None, candidate=None, difference=None, n_pairs=n_pairs, reason=reason
    )


def explain_missing(base: TaskRows, candidate: TaskRows, metric: Metric) -> str | None:
    """Return which side lacks the fields that the metric needs, or None."""
    for word, side in (("base", base), ("candidate", candidate)):
        if not side.has_fields(metric):
            return f"{word}: {metric.empty}"
    return None


def is_too_large(*samples: Floats) -> bool:
    """Say whether means, or their squares, exceed a double."""
    return not all(
        sample.min(initial=0.0) > -_LARGEST and sample.max(initial=0.0) < _LARGEST
        for sample in samples
    )


def is_binary(metric: Metric, *values: Floats) -> bool:
    """Say whether these are shares of single runs; averages over several are like other numbers."""
    a_share = isinstance(metric.interval, Wilson)
    return a_share and all(bool(np.isin(each, (0.0, 1.0)).all()) for each in values)


def list_clusters(tasks: pl.DataFrame, *sides: TaskRows) -> Whole:
    """Return the cluster of each task on the first side that has it, else one of its own."""
    found = tasks.select(TASK)
    for number, side in enumerate(sides):
        known = side.rows.group_by(TASK).agg(pl.col(CLUSTER).min().alias(f"{CLUSTER}{number}"))
        found = found.join(known, on=TASK, how="left", maintain_order="left")
    return found.select(pl.coalesce(pl.exclude(TASK), TASK)).to_series().to_numpy()


def count_resamples(options: Options, tasks: int, usual: int, cells: int) -> int:
    """Return the number asked for, else the usual one, or fewer with many tasks."""
    return max(_FEWEST_RESAMPLES, options.resamples or min(usual, cells // tasks))
