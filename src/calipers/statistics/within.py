"""A slope within groups: how far a value moves with another one, each group compared with itself.

>>> groups, x = np.repeat(np.arange(3), 2), np.array([0.0, 1, 0, 2, 0, 3])
>>> slope_within(x, 2 * x + 10 * groups, groups).slope
2.0
"""

from __future__ import annotations

import numpy as np

from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.paired import student
from calipers.support.quick_dataclasses import dataclass

_ROUNDING = 1e-12
NOTHING_DIFFERS = "no group has two values to compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """The slope with its interval; n counts the values in groups that tell something of it."""

    n: int
    slope: float | None = None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def slope_within(
    x: Floats,
    y: Floats,
    groups: Labels,
    *,
    clusters: Labels | None = None,
    confidence: float = 0.95,
) -> Slope:
    """Return the least-squares slope of y on x with a level of its own for each group.

    The interval is Student's t over clusters, which are the groups unless others are given
    (Liang & Zeger 1986, with G / (G − 1) as Cameron & Miller 2015 for few clusters).

    Args:
        x: a finite value each.
        y: a finite value each.
        groups: a label each; only differences within a group count.
        clusters: a label each; values that share one depend on each other.
        confidence: of the interval.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    off_x, off_y = _subtract_means(x, codes), _subtract_means(y, codes)
    spread = np.bincount(codes, weights=off_x**2)
    tells = spread[codes] > _ROUNDING * max(1.0, float(np.square(x).max(initial=0.0)))
    n = int(tells.sum())
    if not n:
        return Slope(n=0, reason=NOTHING_DIFFERS)
    off_x, off_y = off_x[tells], off_y[tells]
    total = float(np.square(off_x).sum())
    slope = float(off_x @ off_y) / total
    of = np.unique((groups if clusters is None else clusters)[tells], return_inverse=True)[1]
    moved = np.bincount(of, weights=off_x * (off_y - slope * off_x))
    count = moved.size
    stderr = None
    if count > 1:
        stderr = float(np.sqrt(count / (count - 1) * np.square(moved).sum())) / total
    largest = float(np.abs(off_y).max()) / float(np.abs(off_x).max())
    low, high, _, reason = student(slope, stderr, count - 1, largest=largest, confidence=confidence)
    return Slope(n=n, slope=slope, stderr=stderr, low=low, high=high, reason=reason)


def _subtract_means(values: Floats, codes: Labels) -> Floats:
    counts = np.bincount(codes)
    return values - (np.bincount(codes, weights=values) / np.maximum(counts, 1))[codes]
