"""Intervals of means, shares and quantiles in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from scipy import stats

from tests.conformance.interval_errors import (
    NOTHING,
    Asked,
    Bounds,
    Row,
    UncertainError,
    _clusters,
    _design_effect,
    _inside,
    _kish,
    _shares,
    _skewed,
    _slack,
    _student,
    _sums,
    _variance,
)

# --- Means and shares ---


def _log_t(rows: list[Row], asked: Asked) -> Bounds:
    """On the scale of the logarithm; values without any spread do not tell how far others lie."""
    if _clusters(rows) < 2:
        return NOTHING
    values = [float(value) for value, _ in rows]
    mean = math.fsum(values) / len(values)
    effects = [value - mean for value in values]
    stderr = math.sqrt(_variance(effects, rows))
    uneven = _clusters(rows) > 2 > _kish(_shares(rows))
    if uneven or mean == 0 or stderr <= 1e-9 * mean:
        return Bounds(None, None, stderr, _slack(values))
    if stderr < 2e-7 * mean:
        raise UncertainError
    reach = _student(effects, rows, asked) * stderr / mean
    if reach > 50:
        raise UncertainError
    factor = math.exp(reach)
    high = mean * factor
    skewed = _skewed(effects, rows, _student(effects, rows, asked))
    if skewed is not None:
        high = max(high, mean + skewed[1] * stderr)
    return Bounds(mean / factor, high, stderr, _slack(values) * factor)


def _logit_t(rows: list[Row], asked: Asked) -> Bounds:
    """t on the scale of the log odds, and as much of the unseen as the values leave room for."""
    if _clusters(rows) < 2:
        return NOTHING
    values = [float(value) for value, _ in rows]
    mean = math.fsum(values) / len(values)
    effects = [value - mean for value in values]
    stderr = math.sqrt(_variance(effects, rows))
    worth = _kish(_shares(rows))
    # Wilson's bound of a share of which nothing was seen: p with p² = z² p (1 − p) / worth.
    z = NormalDist().inv_cdf((1 + asked.confidence) / 2)
    unseen = 1 - 1 / (1 + z**2 / worth)
    possible = mean * (1 - mean)
    if possible > 1e-12 and worth > _clusters(rows) - 1e-6:
        # No values between the ends spread as far as those at the ends.
        squares = math.fsum(each**2 for each in _sums([value - mean for value in values], rows))
        seen = squares * _clusters(rows) / len(rows) ** 2 / possible
        if 1 - 1e-7 < seen < 1 - 1e-11:
            raise UncertainError
        if seen >= 1 - 1e-9:
            z = NormalDist().inv_cdf((1 + asked.confidence) / 2)
            bounds = _score_bounds(mean, float(_clusters(rows)), z, asked)
            return Bounds(*bounds, stderr, _slack(values))
    ends = []
    for sign, distance in ((-1, mean), (1, 1 - mean)):
        of_spread = 0.0
        if possible > 1e-12:
            log_odds = math.log(mean / (1 - mean))
            log_odds += sign * min(_student(effects, rows, asked) * stderr / possible, 700)
            of_spread = abs(1 / (1 + math.exp(-log_odds)) - mean)
        of_unseen = 0.0
        if distance > 0:
            spread = stderr * math.sqrt(worth) / distance
            of_unseen = unseen * distance / (1 + (spread / 0.02) ** 2)
        ends.append(min(1.0, max(0.0, mean + sign * math.hypot(of_spread, of_unseen))))
    steepness = max(1.0, 0.25 / max(possible, 1e-12))
    low, high = max(0.0, ends[0]), min(1.0, ends[1])
    return Bounds(low, high, stderr, _slack(values) * min(steepness, 1e4))


def _wilson(rows: list[Row], asked: Asked) -> Bounds:
    n, clusters = len(rows), _clusters(rows)
    values = [float(value) for value, _ in rows]
    share = math.fsum(values) / n
    effects = [value - share for value in values]
    stderr = math.sqrt(_variance(effects, rows)) if clusters > 1 else None
    if clusters == n:
        z, size = NormalDist().inv_cdf((1 + asked.confidence) / 2), float(n)
    elif clusters > 1:
        z = _student(effects, rows, asked)
        least = (NormalDist().inv_cdf((1 + asked.confidence) / 2) / z) ** 2
        size = n / _design_effect(effects, rows, unlike=n * min(share, 1 - share), least=least)
    else:
        return NOTHING

    return Bounds(*_score_bounds(share, size, z, asked), stderr, _slack(values))


def _score_bounds(share: float, size: float, z: float, asked: Asked) -> tuple[float, float]:
    """Wilson's bounds, or those of the exact interval that misses twice as often, if further."""

    def is_inside(p: float) -> bool:
        return (share - p) ** 2 <= z**2 * p * (1 - p) / size

    low, high = _last(is_inside, share, 0.0), _last(is_inside, share, 1.0)
    tail = min(0.5, 1 - asked.confidence)
    if share > 0:
        k = max(1.0, share * size)
        low = min(low, float(stats.beta.ppf(tail, k, max(0.0, size - k) + 1)))
    if share < 1:
        k = max(1.0, (1 - share) * size)
        high = max(high, 1 - float(stats.beta.ppf(tail, k, max(0.0, size - k) + 1)))
    return low, high


def _last(holds: Callable[[float], bool], start: float, end: float) -> float:
    """How far from start towards end it holds."""
    if start == end or holds(end):
        return end
    for _ in range(200):
        middle = (start + end) / 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start


# --- Quantiles ---


def _order_statistics(rows: list[Row], asked: Asked, *, percent: int = 95) -> Bounds:
    values = sorted(float(value) for value, _ in rows)
    n, clusters = len(rows), _clusters(rows)
    share = Fraction(percent, 100)
    position = math.ceil(share * n)
    size = n
    if clusters < n:
        if clusters < 2:
            return NOTHING
        effects = [(value <= values[position - 1]) - percent / 100 for value, _ in rows]
        # The squares of the rows are known, as their share is: what clusters add is counted.
        of_rows = n * float(share * (1 - share))
        shares = _shares(rows)
        added = _variance(effects, rows) * n**2
        added -= math.fsum(effect**2 for effect in effects) * n / (n - 1)
        plain = of_rows + math.fsum(each**2 for each in _sums(effects, rows))
        plain -= math.fsum(effect**2 for effect in effects)
        variance = max(0.0, of_rows * n / (n - 1) + added) / n**2 if plain > 0 else 0.0
        seen = max(1.0, variance / (of_rows / (n * (n - 1))))
        of_own = math.fsum(effect**2 for effect in effects)
        inside = min(1.0, _inside(effects, rows) * of_own / of_rows)
        telling = max(_kish(shares) / clusters, inside)
        weight = 1 / (float(min(share, 1 - share)) * n * telling + 1)
        worst = n / _kish(shares)
        size = math.floor(n / ((1 - weight) * seen + weight * max(seen, worst)) + 1e-9)
        if size < 1:
            return NOTHING
    tail = Fraction((1 - asked.confidence) / 2)
    from_below = _most(size, share, tail) * n // size
    from_above = _most(size, 1 - share, tail) * n // size
    low = values[min(from_below, position) - 1] if from_below else None
    high = values[max(n + 1 - from_above, position) - 1] if from_above else None
    if low is None or high is None:
        return Bounds(low, high, None)
    reach = NormalDist().inv_cdf((1 + asked.confidence) / 2)
    return Bounds(low, high, (high - low) / (2 * reach))


def _most(trials: int, share: Fraction, tail: Fraction) -> int:
    """The largest k such that fewer than k of so many trials have at most this probability."""
    below, k = Fraction(0), 0
    while k <= trials:
        below += math.comb(trials, k) * share**k * (1 - share) ** (trials - k)
        if below > tail:
            break
        k += 1
    return k
