"""Shares and means over judgments, with intervals that take clusters of records into account."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from calipers.scores.results import Measured
from calipers.statistics.arrays import Floats
from calipers.statistics.estimates import Estimate
from calipers.statistics.influence import Sampling, estimate_share
from calipers.statistics.paired import estimate_mean, student


def measure_share(values: Floats, *, sampling: Sampling, of: int, empty: str) -> Measured:
    """Return the share of ones among the values that are there, with Wilson's interval."""
    there = ~np.isnan(values)
    found = estimate_share(values[there], sampling.keep(there), empty)
    return Measured(missing=of - found.n, **asdict(found))


def measure_mean(
    values: Floats, *, sampling: Sampling, of: int, empty: str, least: float = -1.0
) -> Measured:
    """Return the mean of the values that are there, with Student's interval within ±1."""
    there = ~np.isnan(values)
    found = estimate_by_student(values[there], sampling.keep(there), empty)
    if found.low is not None and found.high is not None:
        found = replace(found, low=max(least, found.low), high=min(1.0, found.high))
    return Measured(missing=of - found.n, **asdict(found))


def estimate_by_student(values: Floats, sampling: Sampling, empty: str) -> Estimate:
    """Return the mean of values, a unit each, with Student's interval."""
    mean, stderr, freedom = estimate_mean(values, sampling.clusters)
    if mean is None:
        return Estimate(value=None, n=0, reason=empty)
    largest = float(np.abs(values).max())
    low, high, _, _ = student(
        mean, stderr, freedom, largest=largest, confidence=sampling.confidence
    )
    interval = None if low is None else "t"
    return Estimate(value=mean, low=low, high=high, stderr=stderr, interval=interval, n=len(values))
