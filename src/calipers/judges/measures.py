"""Shares and means over judgments, with intervals that know which records belong together."""

from __future__ import annotations

import numpy as np

from calipers.scores.results import Measured
from calipers.statistics.arrays import Floats
from calipers.statistics.influence import Sampling, spread
from calipers.statistics.intervals import wilson
from calipers.statistics.paired import estimate_mean, student


def measure_share(values: Floats, *, sampling: Sampling, of: int, empty: str) -> Measured:
    """Return the share of ones among the values that are there, with Wilson's interval."""
    there = ~np.isnan(values)
    n = int(there.sum())
    if not n:
        return Measured(value=None, n=0, missing=of, reason=empty)
    share = float(values[there].mean())
    squares, clusters = spread((values[there] - share) / n, sampling.clusters[there])
    around = wilson(share, n, squares, clusters, sampling.confidence)
    return Measured(
        value=share,
        n=n,
        missing=of - n,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=None if around.low is None else "wilson",
    )


def measure_mean(
    values: Floats, *, sampling: Sampling, of: int, empty: str, least: float = -1.0
) -> Measured:
    """Return the mean of the values that are there, with Student's interval within ±1."""
    there = ~np.isnan(values)
    mean, stderr, freedom = estimate_mean(values[there], sampling.clusters[there])
    if mean is None:
        return Measured(value=None, n=0, missing=of, reason=empty)
    largest = float(np.abs(values[there]).max())
    low, high, _, _ = student(
        mean, stderr, freedom, largest=largest, confidence=sampling.confidence
    )
    n = int(there.sum())
    return Measured(
        value=mean,
        n=n,
        missing=of - n,
        low=None if low is None else max(least, low),
        high=None if high is None else min(1.0, high),
        stderr=stderr,
        interval=None if low is None else "t",
    )
