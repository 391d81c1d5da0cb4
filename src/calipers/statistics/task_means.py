"""The mean of a metric over tasks, of one system and of several: its interval, their covariance."""

from __future__ import annotations

import numpy as np

from calipers.statistics.arrays import Floats, Labels, sum_clusters
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import Interval, interval_of_mean, partial_wilson


def mean_interval(
    values: Floats,
    *,
    ends: tuple[float, float],
    is_share: bool,
    confidence: float,
    clusters: Labels | None = None,
) -> Interval:
    """Return the interval of the mean over tasks like these.

    Args:
        values: one per task, at least one.
        ends: what values can be; infinite where they have no end.
        is_share: whether a task is right or wrong: where all values are 0 or 1, Wilson's interval
            with Student's t. The normal quantile would do at 95 %, but not at the higher levels at
            which several intervals hold together: four of 40 tasks did so in 93 % of simulations.
        confidence: of the interval.
        clusters: a label per task; tasks that share one depend on each other.
    """
    mean, n = float(values.mean()), values.size
    spread = float(np.square(sum_clusters(values - mean, clusters)).sum()) / n**2
    sizes = Clusters.of(n)
    if clusters is not None:
        sizes = Clusters.of_sizes(np.unique(clusters, return_counts=True)[1].tolist())
    if is_share and bool(np.isin(values, (0.0, 1.0)).all()):
        return partial_wilson(mean, n, spread, sizes, confidence)
    return interval_of_mean(mean, spread, sizes, confidence, ends=ends)


def covariance_of_means(values: Floats, clusters: Labels | None = None) -> Floats:
    """Return the covariance of several systems' means over the same tasks, a row of values each."""
    off = values - values.mean(axis=1, keepdims=True)
    totals = np.stack([sum_clusters(row, clusters) for row in off])
    count = totals.shape[1]
    few = count / (count - 1) if count > 1 else 1.0
    found: Floats = few * totals @ totals.T / values.shape[1] ** 2
    return found
