"""Intervals of bounded means that hold for any shape and any number of values.

An interval by standard errors goes by the values seen: of 20 runs of which none collapsed, it does
not know that one in ten may. Bets do: someone stakes a part of their capital on each value being
above a mark. If the mean is not above it, no way to bet makes money on average, so the capital is
at least 1/α with a probability of at most α, whatever the distribution (Ville 1939; Waudby-Smith &
Ramdas 2023, "Estimating means of bounded random variables by betting", JRSS B). The marks that win
so much lie below the mean. The capital is spread over fixed parts of what can be lost, so that the
order of values does not matter. Values that are 0 or 1, each once, have the exact binomial
interval, which needs no bets (Clopper & Pearson 1934).

>>> steady = guarantee_mean(np.full(100, 0.8), ends=(0, 1), confidence=0.95)
>>> round(steady.low, 2), round(steady.high, 2)
(0.75, 0.81)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from calipers.statistics.clusters import Floats, Labels
from calipers.statistics.intervals import exact_share

BETS, EXACT = "bets", "Clopper-Pearson"
UNEQUAL = "clusters of unequal size: no interval of their mean is guaranteed"

# Denser near 0, for marks that are close to the mean.
_FRACTIONS: Floats = (np.arange(1, 21) / 20.2) ** 2
_SMALLEST = 1e-12
_STEPS = 30  # halvings of the range to find a bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Guaranteed:
    """An interval that misses with at most the probability asked for, and how it was made."""

    low: float
    high: float
    method: str


def guarantee_mean(
    values: Floats, *, ends: tuple[float, float], confidence: float, is_share: bool = False
) -> Guaranteed:
    """Return the interval of the mean of independent values between two ends, at least one value.

    Args:
        values: one per task, or per cluster of equally many tasks.
        ends: what a value can be.
        confidence: at least so often the interval holds.
        is_share: whether each is right or wrong: then the exact interval where all are 0 or 1.
    """
    if is_share and bool(np.isin(values, (0.0, 1.0)).all()):
        low, high = exact_share(float(values.mean()), float(values.size), confidence)
        return Guaranteed(low=low, high=high, method=EXACT)
    least, most = ends
    scaled = np.clip((values - least) / (most - least), 0.0, 1.0)
    tail = (1 - confidence) / 2
    below, above = _find_low(scaled, tail), 1 - _find_low(1 - scaled, tail)
    width = most - least
    return Guaranteed(low=least + width * below, high=least + width * above, method=BETS)


def guarantee_p(values: Floats, *, ends: tuple[float, float], mark: float) -> float:
    """Return a two-sided p of the mean being the mark: twice one over the larger capital."""
    least, most = ends
    scaled = np.clip((values - least) / (most - least), 0.0, 1.0)
    place = (mark - least) / (most - least)
    won = max(_compute_capital(scaled, place), _compute_capital(1 - scaled, 1 - place))
    return min(1.0, 2 * float(np.exp(-won)))


def average_clusters(values: Floats, clusters: Labels | None) -> Floats | None:
    """Return the mean of each cluster; None where they are of unequal size."""
    if clusters is None:
        return values
    _, members, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    if sizes.min() != sizes.max():
        return None
    found: Floats = np.bincount(members.ravel(), weights=values) / sizes
    return found


def _compute_capital(values: Floats, mark: float) -> float:
    """Return the log of the capital after bets that the mean is above a mark."""
    won = values / max(mark, _SMALLEST) - 1  # per unit that can be lost
    parts = np.log1p(_FRACTIONS[:, None] * won).sum(axis=1)
    return float(np.logaddexp.reduce(parts)) - log(_FRACTIONS.size)


def _find_low(values: Floats, tail: float) -> float:
    """Return the greatest value that the mean is known to exceed."""
    low, high = 0.0, float(values.mean())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _compute_capital(values, middle) >= -log(tail):
            low = middle
        else:
            high = middle
    return low
