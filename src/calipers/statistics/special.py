"""Distribution functions and their inverses, under scipy's names, without scipy.

What is outside a function's domain gives NaN, as there. Student's t, the binomial and the beta
distribution are all the regularised incomplete beta function I_x(a, b), which is computed to nearly
every digit: its power x^a (1−x)^b / B(a, b) is taken by deviances (Loader 2000), as logarithms of
gamma functions would cancel for large a and b; the rest is the continued fraction of Didonato &
Morris (1992, ACM TOMS 18, 360).
"""

from __future__ import annotations

from functools import lru_cache
from math import copysign, erfc, exp, floor, inf, isnan, lgamma, log, nan, pi, sqrt
from statistics import NormalDist

__all__ = ["bdtr", "betaincinv", "chdtrc", "expit", "ndtr", "ndtri", "stdtr", "stdtrit"]

_NORMAL = NormalDist()
_LOG_ROOT_2PI = 0.5 * log(2 * pi)
# 1/12, 1/360, …: what Stirling's formula leaves, in powers of 1/z²
_STIRLING = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188, 691 / 360360, 1 / 156)
_LARGE = 12.0  # from here these do
_NEAR = 0.1  # relative distance of a count from its expectation, below which a series is used
_PRECISE = 1e-16
_TINY = 1e-300
_MOST_TERMS = 10_000_000
_MOST_STEPS = 200
_CLOSE = 1e-6  # a step, in standard deviations, after which none is needed
_BEYOND = 745.0  # log odds of what is 0 as a double
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
    odds = _invert_beta(freedom / 2, 0.5, 2 * tail, abs(2 * p - 1), _guess_odds(freedom, tail))
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
    return _from_log_odds(_invert_beta(a, b, p, 1 - p))[0]


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
        away = _compute_stirling_error(largest) + _compute_deviance(largest, mean, mean - largest)
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


def incomplete_beta(a: float, b: float, x: float, y: float) -> tuple[float, float]:
    """Return I_x(a, b) and 1 − I_x(a, b), given x and y = 1 − x, for positive a and b.

    The smaller of x and y has its own digits, so that neither result loses any.

    >>> [round(each, 9) for each in incomplete_beta(2, 1, 0.5, 0.5)]
    [0.25, 0.75]
    """
    if x <= 0 or y <= 0:
        return (0.0, 1.0) if x <= 0 else (1.0, 0.0)
    a, b, x, y = float(a), float(b), float(x), float(y)  # numpy's are slower
    if a * y >= b * x:
        lower = min(1.0, _compute_power(a, b, x, y) / _evaluate_fraction(a, b, x, y))
        return lower, 1 - lower
    upper = min(1.0, _compute_power(b, a, y, x) / _evaluate_fraction(b, a, y, x))
    return 1 - upper, upper


def _invert_beta(
    a: float, b: float, lower: float, upper: float, start: float | None = None
) -> float:
    """Return the log odds of the x at which I_x(a, b) is `lower`, and 1 − I_x(a, b) is `upper`.

    Halley's method on the logarithm of the smaller one, which is concave in the log odds, kept
    between what is known to be too low and too high.
    """
    if lower <= 0 or upper <= 0:
        return -inf if lower <= 0 else inf
    side = 1 if lower <= upper else -1
    target = log(min(lower, upper))
    low, high = -_BEYOND, _BEYOND
    odds = min(high, max(low, _guess_log_odds(a, b, lower, upper) if start is None else start))
    enough = _CLOSE * min(1.0, sqrt(1 / a + 1 / b))
    for _ in range(_MOST_STEPS):
        x, y = _from_log_odds(odds)
        found = incomplete_beta(a, b, x, y)[0 if side > 0 else 1]
        off = side * (log(found) - target) if found > 0 else -inf * side
        low, high = (odds, high) if off < 0 else (low, odds)
        slope = _compute_power(a, b, x, y) / found if found > 0 else 0.0
        step = off / slope if slope > 0 else inf
        # The second derivative over the first is that of the density, less the slope.
        bend = 0.5 * step * (a * y - b * x - side * slope)
        step /= 1 - max(-0.5, min(0.5, bend))
        before, odds = odds, odds - step
        if not low <= odds <= high:
            odds = (low + high) / 2
        if abs(odds - before) <= enough or abs(odds) >= _BEYOND:
            break  # cubic convergence: the next step would be nothing
    return odds if abs(odds) < _BEYOND - 1 else copysign(inf, odds)


def _guess_log_odds(a: float, b: float, lower: float, upper: float) -> float:
    """Return roughly those log odds: Abramowitz & Stegun 26.5.22, or of a power near an end."""
    if min(a, b) > 1:
        z = -_NORMAL.inv_cdf(lower) if lower <= upper else _NORMAL.inv_cdf(upper)
        of_a, of_b = 1 / (2 * a - 1), 1 / (2 * b - 1)
        h, square = 2 / (of_a + of_b), (z * z - 3) / 6
        skew = (of_b - of_a) * (square + 5 / 6 - 2 / (3 * h))
        return log(a / b) - 2 * (z * sqrt(max(0.0, h + square)) / h - skew)
    size = lgamma(a) + lgamma(b) - lgamma(a + b)
    below, above = (log(lower * a) + size) / a, (log(upper * b) + size) / b
    middle = log(a / b)
    return min(middle, below) if lower <= upper else max(middle, -above)


def _from_log_odds(odds: float) -> tuple[float, float]:
    """Return x and 1 − x, each with its own digits."""
    if abs(odds) >= _BEYOND:
        return (0.0, 1.0) if odds < 0 else (1.0, 0.0)
    if odds <= 0:
        ratio = exp(odds)
        return ratio / (1 + ratio), 1 / (1 + ratio)
    ratio = exp(-odds)
    return 1 / (1 + ratio), ratio / (1 + ratio)


def _compute_power(a: float, b: float, x: float, y: float) -> float:
    """Return x^a y^b / B(a, b), where y = 1 − x."""
    n = a + b
    above = b * x - a * y  # n x − a, and with the other sign n y − b
    off = _compute_stirling_error(n) - _compute_stirling_error(a) - _compute_stirling_error(b)
    away = _compute_deviance(a, n * x, above) + _compute_deviance(b, n * y, -above)
    return sqrt(a * (b / n) / (2 * pi)) * exp(off - away)


def _compute_stirling_error(z: float) -> float:
    """Return log Γ(z) less Stirling's formula (z − 1/2) log z − z + log √(2π)."""
    if z < _LARGE:
        return lgamma(z) - (z - 0.5) * log(z) + z - _LOG_ROOT_2PI
    square = 1 / (z * z)
    total = 0.0
    for coefficient in reversed(_STIRLING):
        total = coefficient - total * square
    return total / z


def _compute_deviance(count: float, mean: float, above: float) -> float:
    """Return c log(c / m) + m − c of a count and its mean, given m − c with its own digits."""
    if abs(above) >= _NEAR * (count + mean):
        return count * log(count / mean) + above if mean > 0 else inf
    # log(m / c) is twice the area hyperbolic tangent of this; its first term cancels with m − c.
    ratio = above / (count + mean)
    square = ratio * ratio
    found, term, divisor = above * ratio, -2 * count * ratio * square, 3
    while (longer := found + term / divisor) != found:
        found, term, divisor = longer, term * square, divisor + 2
    return found


def _evaluate_fraction(a: float, b: float, x: float, y: float) -> float:
    """Return the continued fraction by which the power is divided, for x up to the mean."""
    left = a * y - b * x + 1
    value = a * left / (a + 1)
    up, down = value, 0.0
    for m in range(1, _MOST_TERMS):
        width = a + 2 * m - 1
        share = m * (b - m) * x / width
        numerator = (a + m - 1) * (a + b + m - 1) * share * x / width
        denominator = m + share + (a + m) * (left + m * (1 + y)) / (width + 2)
        down = denominator + numerator * down
        up = denominator + numerator / up
        down = 1 / (down or _TINY)
        up = up or _TINY
        change = up * down
        value *= change
        if abs(change - 1) <= _PRECISE:
            break
    return value
