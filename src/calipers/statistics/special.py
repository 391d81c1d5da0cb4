"""Distribution functions and their inverses, under scipy's names, without scipy.

What is outside a function's domain gives NaN, as there.
"""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, floor, inf, isnan, log, nan, pi, sqrt
from statistics import NormalDist

from calipers.statistics.incomplete_beta import (
    deviance,
    from_log_odds,
    incomplete_beta,
    invert_beta,
    stirling_error,
)

__all__ = ["bdtr", "betaincinv", "chdtrc", "expit", "ndtr", "ndtri", "stdtr", "stdtrit"]

_NORMAL = NormalDist()
_NOTHING = 1e-17
_KEPT = 4096  # results of inverses: many metrics have the same degrees of freedom


def ndtr(z: float) -> float:
    """Return the probability that a standard normal variable is at most z."""
    return 0.5 * erfc(-z / sqrt(2))


def ndtri(p: float) -> float:
    """Return the quantile of the standard normal distribution.

    >>> round(ndtri(0.975), 6)
    1.959964
    """
    if 0 < p < 1:
        return _NORMAL.inv_cdf(p)
    return -inf if p == 0 else inf if p == 1 else nan


def expit(odds: float) -> float:
    """Return 1 / (1 + exp(−x)), the inverse of the log odds."""
    return exp(odds) / (1 + exp(odds)) if odds < 0 else 1 / (1 + exp(-odds))


def stdtr(freedom: float, t: float) -> float:
    """Return the probability that Student's t, with these degrees of freedom, is at most t.

    >>> stdtr(1, 1)
    0.75
    """
    if not freedom > 0 or isnan(t):
        return nan
    if freedom == inf:
        return ndtr(t)
    square = t * t
    whole = freedom + square
    both = (
        incomplete_beta(freedom / 2, 0.5, freedom / whole, square / whole)[0]
        if whole < inf
        else 0.0
    )
    return both / 2 if t < 0 else 1 - both / 2


@lru_cache(_KEPT)
def stdtrit(freedom: float, p: float) -> float:
    """Return the quantile of Student's t with these degrees of freedom.

    >>> round(stdtrit(4, 0.975), 4)
    2.7764
    """
    if not freedom > 0 or not 0 <= p <= 1:
        return nan
    if freedom == inf:
        return ndtri(p)
    tail = min(p, 1 - p)
    odds = invert_beta(freedom / 2, 0.5, 2 * tail, abs(2 * p - 1), _guess_odds(freedom, tail))
    size = sqrt(freedom) * exp(-odds / 2)
    return size if p > tail else -size


def _guess_odds(freedom: float, tail: float) -> float | None:
    """Return roughly the log odds of ν / (ν + t²): t from the normal distribution."""
    z = ndtri(tail)
    square = z * z
    t = z * (1 + (square + 1) / (4 * freedom) + (5 * square * square) / (96 * freedom * freedom))
    return log(freedom / (t * t)) if 0 < square < freedom else None


def bdtr(k: float, n: float, p: float) -> float:
    """Return the probability of at most k successes in n trials, each of probability p."""
    if not 0 <= k <= n or not 0 <= p <= 1:
        return nan
    return 1.0 if k == n else incomplete_beta(n - k, k + 1, 1 - p, p)[0]


@lru_cache(_KEPT)
def betaincinv(a: float, b: float, p: float) -> float:
    """Return the quantile of the beta distribution.

    >>> round(betaincinv(1, 2, 0.75), 12)
    0.5
    """
    if not (a > 0 and b > 0 and 0 <= p <= 1):
        return nan
    return from_log_odds(invert_beta(a, b, p, 1 - p))[0]


def chdtrc(freedom: int, x: float) -> float:
    """Return the probability that χ², with whole degrees of freedom, exceeds x.

    >>> round(chdtrc(2, 2), 12) == round(exp(-1), 12)
    True
    """
    if freedom < 1 or not x >= 0:
        return nan
    if x in {0, inf}:
        return 1.0 if x == 0 else 0.0
    half = x / 2
    first, last = freedom % 2 / 2, freedom / 2 - 1
    rest = erfc(sqrt(half)) if first else 0.0
    if last < first:
        return rest
    largest = first + min(last - first, max(0, floor(half - first)))
    return min(1.0, rest + _sum_poisson(half, first, largest, last))


def _sum_poisson(mean: float, first: float, largest: float, last: float) -> float:
    """Return Σ exp(−m) m^k / Γ(k + 1) for k = first, first + 1, …, last, from its largest term."""
    top = exp(-mean)
    if largest:
        away = stirling_error(largest) + deviance(largest, mean, mean - largest)
        top = exp(-away) / sqrt(2 * pi * largest)
    total = term = top
    k = largest
    while k > first and term > _NOTHING * total:
        term *= k / mean
        total += term
        k -= 1
    term, k = top, largest
    while k < last and term > _NOTHING * total:
        k += 1
        term *= mean / k
        total += term
    return total
