"""The mean of a metric over tasks, of one system and of several: its interval, their covariance.

Of tasks that are all there are, only the runs might have come out otherwise (`fixed_interval`).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from calipers.statistics.arrays import Floats, Labels, sum_clusters
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import Interval, interval_of_mean, partial_wilson, score_bounds
from calipers.statistics.paired_means import t_reach


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
    totals = off if clusters is None else np.stack([sum_clusters(row, clusters) for row in off])
    count = totals.shape[1]
    few = count / (count - 1) if count > 1 else 1.0
    found: Floats = few / values.shape[1] ** 2 * (totals @ totals.T)
    return found


def fixed_interval(
    value: float,
    variance: float,
    *,
    rows: int,
    freedom: int,
    bounds: tuple[float, float] | None,
    confidence: float,
) -> Interval:
    """Return the interval of a mean on fixed tasks, given the variance of its runs.

    Between bounds it is Wilson's, of as many rows as would vary so much; few rows unlike the others
    tell little of that, and count as if one more had told the most, that each stands for itself.

    Args:
        value: the mean.
        variance: of the mean, from the spread of runs within tasks.
        rows: how many runs there are in all.
        freedom: how many of them are not the first of their task.
        bounds: what values can be; None where they have no bounds.
        confidence: of the interval.

    >>> found = fixed_interval(1.0, 0.0, rows=80, freedom=60, bounds=(0, 1), confidence=0.95)
    >>> round(found.low, 3), found.high
    (0.952, 1.0)
    """
    z = t_reach(freedom, confidence)
    stderr = sqrt(variance)
    if bounds is None:
        return Interval(low=value - z * stderr, high=value + z * stderr, stderr=stderr)
    low, high = bounds
    share, reach = (value - low) / (high - low), high - low
    possible = share * (1 - share)
    worst = 1 / rows
    seen = variance / reach**2 / possible if possible > 0 else 0.0
    unlike = rows * min(share, 1 - share)
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    least, most = score_bounds(share, size, z)
    return Interval(
        low=low + reach * min(share, least), high=low + reach * max(share, most), stderr=stderr
    )
