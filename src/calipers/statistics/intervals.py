"""Intervals from a value, how far its clusters spread, and how many clusters there are.

`spread` is the sum over clusters of the square of the cluster's influence on the value: for a mean
of n rows, Σ_c (Σ_i (x_ic − mean))² / n². With a cluster per row this is the textbook's variance.
Clusters are given as `Clusters`, or as a bare number where all are of one size.

Each function takes the numbers of one value, or columns of those of many (`elementwise`): an
`Interval` of columns has NaN where that of one value has null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf, isfinite, isnan, nan
from typing import Any

from calipers.statistics import special
from calipers.statistics.clusters import Clusters
from calipers.statistics.elementwise import (
    apply,
    as_float,
    at_least,
    at_most,
    choose,
    divide,
    exp,
    hypot,
    is_anywhere,
    is_one,
    power,
    sqrt,
)

_ROUNDING = 3e-8  # squares that cancel leave the root of a double's precision
_OF_CHANCE = 1.5**2 * 6.0  # over n: the square of 1.5 standard errors of normal values' skewness
_FLAT = -3.0  # skewness × t, where Hall's transformation has no slope
_TWO = 2  # clusters, the fewest that tell how far they lie apart
_STEEPEST = 700.0  # the largest exponent of e that is a number
_ALIKE = 1e-9  # sums that differ by less, relatively, are the same
_NO_INFLUENCE = 1e-12  # per row, squared: what rounding leaves of 0
TIGHT = 0.02  # of the way to a bound: values that spread less may hide rare ones far off

ONE_ROW = "one row does not show how much others vary"
ONE_CLUSTER = "one cluster does not show how much others vary"
NO_SPREAD = "all values are equal: they do not show how much others vary"
ONE_HOLDS_MOST = "one cluster holds most of the rows: the others show too little"
NO_BOUND = "the data are too few for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the value may lie; a bound that the data cannot give is null, with the reason.

    Of many values each part is a column, in which NaN is null, or one number or text for all.
    """

    low: Any
    high: Any
    stderr: Any
    reason: Any = None
    worth: Any = None  # of a share: as many independent rows would say as much


UNKNOWN = Interval(low=None, high=None, stderr=None, reason=ONE_CLUSTER)


def bound(low: Any, high: Any, stderr: Any, reason: Any = None, worth: Any = None) -> Interval:
    """Return the interval of these parts; of one value, NaN becomes null."""
    return Interval(
        low=_drop_nan(low),
        high=_drop_nan(high),
        stderr=_drop_nan(stderr),
        reason=reason,
        worth=_drop_nan(worth),
    )


def _drop_nan(value: Any) -> Any:
    return None if is_one(value) and isnan(value) else value


def standard_error(spread: Any, clusters: Any) -> Any:
    """Return the square root of C/(C−1) times the spread (Miller 2024, arXiv 2411.00640).

    Where clusters are of unequal size the factor is larger; None where there are fewer than two.
    """
    return _drop_nan(compute_error(spread, Clusters.of(clusters)))


def compute_error(spread: Any, clusters: Clusters) -> Any:
    """Return the same, NaN where there are fewer than two clusters."""
    if is_one(clusters.count) and clusters.too_few:
        return nan
    return sqrt(choose(clusters.too_few, nan, spread * clusters.inflation))


def normal_quantile(confidence: float) -> float:
    """Return the number of standard errors that an interval extends, their size being known."""
    return special.ndtri((1 + confidence) / 2)


def t_quantile(clusters: Any, confidence: float) -> Any:
    """Return the number of standard errors that the interval extends, by Student's t."""
    return apply(special.stdtrit, Clusters.of(clusters).degrees, (1 + confidence) / 2)


def t_interval(value: Any, spread: Any, clusters: Any, confidence: float) -> Interval:
    """Return the value ± t standard errors."""
    clusters = Clusters.of(clusters)
    stderr = compute_error(spread, clusters)
    reach = t_quantile(clusters, confidence) * stderr
    return bound(value - reach, value + reach, stderr, choose(clusters.too_few, ONE_CLUSTER, None))


def skewed_reach(skewness: float, worth: float, t: float) -> tuple[float, float] | None:
    """Return how many standard errors an interval extends below and above a skewed mean.

    Hall's (1992, J. R. Stat. Soc. B 54, 221) cubic transformation of Student's t, inverted: where
    values have a long tail, samples without its largest ones show too small a mean and too small a
    spread at once. It reaches no further than where the transformation is flat, 3 / skewness: its
    inverse runs away beyond, and holds no more often. None where the skewness is no more than
    chance shows in values without any, or of two clusters, which show none.

    Args:
        skewness: of the mean's error, Σ T³ / (Σ T²)^1.5 of the clusters' influences.
        worth: how many equal clusters would tell as much.
        t: the quantile without skewness.

    >>> below, above = skewed_reach(0.2, 20, 2.093)
    >>> round(below, 2), round(above, 2)
    (1.83, 2.53)
    """
    if not _is_skewed(skewness, worth):
        return None
    return _invert_skewed(t, skewness), -_invert_skewed(-t, skewness)


def _is_skewed(skewness: Any, worth: Any) -> Any:
    """Say where skewness is more than chance, and the clusters more than two."""
    return (worth > _TWO) & (abs(skewness) * worth > sqrt(_OF_CHANCE))


def _invert_skewed(quantile: Any, skewness: Any) -> Any:
    inner = at_least(0.0, 1 + skewness * (quantile - skewness / 6))
    return divide(3, skewness) * (power(inner, 1 / 3) - 1)


def transform_skewed(statistic: float, skewness: float) -> float:
    """Return Hall's transformation of Student's t of a skewed mean: `skewed_reach` inverts it.

    Where the inverse does not reach, it is the statistic itself.
    """
    if skewness * statistic <= _FLAT:
        return statistic
    cubic = skewness**2 * statistic**3 / 27
    return statistic + skewness * statistic**2 / 3 + cubic + skewness / 6


def positive_interval(
    value: Any, spread: Any, clusters: Any, confidence: float, *, skewness: Any = 0.0
) -> Interval:
    """Return the interval of a mean or ratio that is never negative and has no upper bound.

    ± t standard errors on the scale of the logarithm: such values mostly have a long upper tail.
    Where it is longer than that, the upper bound goes by the values' skewness (`skewed_reach`).
    Values without any spread do not tell how far others lie: then both bounds are null.
    """
    clusters = Clusters.of(clusters)
    stderr = compute_error(spread, clusters)
    reason = _explain_unbounded(clusters, (value <= 0) | (stderr <= _ROUNDING * value))
    t = t_quantile(clusters, confidence)
    factor = exp(at_most(_STEEPEST, divide(t * stderr, value)))
    high = value * factor
    is_skewed = (skewness > 0) & _is_skewed(skewness, clusters.worth)
    if is_anywhere(is_skewed):
        longer = value - _invert_skewed(-t, skewness) * stderr
        high = choose(is_skewed, at_least(high, longer), high)
    return _keep_known(value / factor, high, stderr, reason)


def unbounded_interval(
    value: Any, spread: Any, clusters: Any, confidence: float, *, skewness: Any = 0.0
) -> Interval:
    """Return the interval of a mean of unbounded values: ± t standard errors.

    On the side of a long tail it reaches as far as the values' skewness asks (`skewed_reach`).
    Values without any spread do not tell how far others lie: then both bounds are null.
    """
    clusters = Clusters.of(clusters)
    stderr = compute_error(spread, clusters)
    reason = _explain_unbounded(clusters, stderr <= _ROUNDING * abs(value))
    t = t_quantile(clusters, confidence)
    low, high = value - t * stderr, value + t * stderr
    is_skewed = _is_skewed(skewness, clusters.worth)
    if is_anywhere(is_skewed):
        below = value - _invert_skewed(t, skewness) * stderr
        above = value - _invert_skewed(-t, skewness) * stderr
        low = choose(is_skewed, at_most(low, below), low)
        high = choose(is_skewed, at_least(high, above), high)
    return _keep_known(low, high, stderr, reason)


def _explain_unbounded(clusters: Clusters, is_flat: Any) -> Any:
    """Return why a mean without an end has no bounds; None where it has."""
    holds_most = (clusters.count > _TWO) & (clusters.worth < _TWO)
    reason = choose(is_flat, NO_SPREAD, None)
    if is_anywhere(holds_most):
        reason = choose(holds_most, ONE_HOLDS_MOST, reason)
    return choose(clusters.too_few, ONE_CLUSTER, reason)


def _keep_known(low: Any, high: Any, stderr: Any, reason: Any) -> Interval:
    """Return the interval without the bounds for whose lack there is a reason."""
    if is_one(low):
        return bound(low, high, stderr) if reason is None else bound(nan, nan, stderr, reason)
    is_known = reason == None  # noqa: E711 (a column of texts)
    return bound(choose(is_known, low, nan), choose(is_known, high, nan), stderr, reason)


def bounded_interval(
    value: Any,
    spread: Any,
    clusters: Any,
    confidence: float,
    *,
    ends: tuple[Any, Any] = (0.0, 1.0),
    tight: float = TIGHT,
) -> Interval:
    """Return the interval of a mean of values within `ends`; its width is never 0.

    ± t standard errors on the scale of the log odds. Values that all lie close together do not
    show that none lies far off: as many of the clusters as Wilson's interval allows for, seeing
    none of them, may lie at the end. That counts in full where the values do not spread at all,
    and fades as they do: half of it where they spread over `tight` of the way. Values that all lie
    at the ends are shares.

    >>> alike = bounded_interval(0.0001, 0.0, 20, 0.95)
    >>> round(alike.low, 4), round(alike.high, 4)
    (0.0001, 0.1612)
    """
    clusters = Clusters.of(clusters)
    if is_one(clusters.count) and clusters.too_few:
        return UNKNOWN
    stderr = compute_error(spread, clusters)
    lowest, highest = ends
    width = highest - lowest
    mean = at_most(1.0, at_least(0.0, divide(value - lowest, width)))
    spread = divide(spread, power(width, 2))
    low, high = _move_on_log_odds(mean, divide(t_quantile(clusters, confidence) * stderr, width))
    z = normal_quantile(confidence)
    unseen = divide(z * z, clusters.worth + z * z)
    variance = power(divide(stderr, width), 2) * clusters.worth
    below = hypot(mean - low, unseen * mean * _weigh_unseen(variance, tight * mean))
    above = hypot(high - mean, unseen * (1 - mean) * _weigh_unseen(variance, tight * (1 - mean)))
    low, high = at_least(0.0, mean - below), at_most(1.0, mean + above)
    is_share = _is_share(mean, spread, clusters)
    if is_anywhere(is_share):
        around = wilson(mean, clusters.count, spread, clusters, confidence)
        low, high = choose(is_share, around.low, low), choose(is_share, around.high, high)
    reason = choose(clusters.too_few, ONE_CLUSTER, None)
    low, high = lowest + width * low, lowest + width * high
    if not is_one(low):
        low, high = (choose(clusters.too_few, nan, each) for each in (low, high))
    return bound(low, high, stderr, reason)


def interval_of_mean(
    value: Any,
    spread: Any,
    clusters: Any,
    confidence: float,
    *,
    ends: tuple[Any, Any],
    tight: float = TIGHT,
    skewness: Any = 0.0,
) -> Interval:
    """Return the interval of a mean of values between two ends, either of which may be infinite."""
    if all(map(isfinite, ends)):
        return bounded_interval(value, spread, clusters, confidence, ends=ends, tight=tight)
    of_values = positive_interval if ends[0] == 0 else unbounded_interval
    return of_values(value, spread, clusters, confidence, skewness=skewness)


def _is_share(mean: Any, spread: Any, clusters: Clusters) -> Any:
    """Say whether all of the clusters' values lie at the ends: no others spread so far."""
    possible = mean * (1 - mean)
    is_equal = clusters.worth >= clusters.count * (1 - _ALIKE)
    is_spread = spread * clusters.count >= possible * (1 - _ALIKE)
    return (possible >= _NO_INFLUENCE) & is_equal & is_spread


def _move_on_log_odds(mean: Any, reach: Any) -> tuple[Any, Any]:
    """Return the bounds `reach` away from the mean, divided by the slope, on log odds."""
    possible = mean * (1 - mean)
    stays = (possible < _NO_INFLUENCE) | (reach == 0)
    odds = divide(mean, 1 - mean)
    factor = exp(at_most(_STEEPEST, divide(reach, possible)))
    low, high = divide(odds, odds + factor), divide(odds, odds + 1 / factor)
    return choose(stays, mean, low), choose(stays, mean, high)


def _weigh_unseen(variance: Any, tight: Any) -> Any:
    """Return the weight of the unseen: 1 without spread, ½ at `tight` of the way to the end."""
    square = power(tight, 2)  # 0 for the smallest numbers
    return choose(square == 0, 0.0, divide(square, square + variance))


def wilson(
    share: Any, n: Any, spread: Any, clusters: Any, confidence: float, *, most: Any = inf
) -> Interval:
    """Return Wilson's score interval (1927) of a share of n rows.

    Where rows come in clusters, or are worth `most` rows at most, with as many rows as would be
    worth as much if they were independent, and with Student's t for the normal quantile.
    """
    clusters = Clusters.of(clusters)
    normal = normal_quantile(confidence)
    z: Any = normal
    size = as_float(n)
    comes_in_clusters = (clusters.count < n) | (most < n)
    unknown = comes_in_clusters & clusters.too_few
    if is_one(n) and unknown:
        return UNKNOWN
    if is_anywhere(comes_in_clusters):
        t = t_quantile(clusters, confidence)
        least = power(divide(normal, t), 2)
        worth = effective_size(share, n, spread, clusters, least=least, most=most)
        z, size = choose(comes_in_clusters, t, normal), choose(comes_in_clusters, worth, size)
    found = _score_interval(share, size, z, compute_error(spread, clusters), confidence)
    return _hide(unknown, found) if is_anywhere(unknown) else found


def _hide(unknown: Any, found: Interval) -> Interval:
    """Return the columns of an interval with nulls where one cluster is all there is."""
    parts = (choose(unknown, nan, part) for part in (found.low, found.high, found.stderr))
    low, high, stderr = parts
    worth = choose(unknown, nan, found.worth)
    return bound(low, high, stderr, choose(unknown, ONE_CLUSTER, found.reason), worth)


def _score_interval(share: Any, size: Any, z: Any, stderr: Any, confidence: float) -> Interval:
    """Return all shares within z of their own standard errors for this effective size.

    Where few rows are unlike the others that is too tight on their side: by itself it would hold
    84 % near 0 and 1. There the bound is that of the exact interval which misses twice as often.
    """
    worth = size * power(divide(normal_quantile(confidence), z), 2)
    low, high = score_bounds(share, size, z)
    if is_anywhere(share > 0):
        exact = _find_exact_low(share * size, size, 1 - confidence)
        low = choose(share > 0, at_most(low, exact), low)
    if is_anywhere(share < 1):
        exact = 1 - _find_exact_low((1 - share) * size, size, 1 - confidence)
        high = choose(share < 1, at_least(high, exact), high)
    return bound(low, high, stderr, None, worth)


def _find_exact_low(rows: Any, size: Any, tail: float) -> Any:
    """Return the exact lower bound of a share of these rows that errs with probability `tail`."""
    rows = at_least(1.0, rows)
    others = at_least(0.0, size - rows) + 1
    return apply(special.betaincinv, rows, others, min(0.5, tail))


def score_bounds(share: Any, size: Any, z: Any) -> tuple[Any, Any]:
    """Return Wilson's bounds, from which other methods are built."""
    ratio = divide(z * z, size)
    middle = divide(share + divide(z * z, 2 * size), 1 + ratio)
    root = sqrt(divide(share * (1 - share), size) + power(divide(z, 2 * size), 2))
    reach = divide(z, 1 + ratio) * root
    low = choose(share == 0, 0.0, at_least(0.0, middle - reach))
    return low, choose(share == 1, 1.0, at_most(1.0, middle + reach))


def exact_share(share: float, size: float, confidence: float) -> tuple[float, float]:
    """Return the exact binomial bounds of a share (Clopper & Pearson 1934).

    The true share lies outside with at most the probability asked for, whatever it is; that makes
    them wider than Wilson's. Rows in clusters count as many as they are worth (Korn & Graubard
    1998, Survey Methodology 24, 193).

    >>> low, high = exact_share(0.97, 100, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.9148, 0.9938)
    """
    tail = (1 - confidence) / 2
    successes = share * size
    low = special.betaincinv(successes, size - successes + 1, tail) if successes else 0.0
    high = special.betaincinv(successes + 1, size - successes, 1 - tail) if share < 1 else 1.0
    return float(low), float(high)


def partial_wilson(
    share: Any, n: Any, spread: Any, clusters: Clusters, confidence: float
) -> Interval:
    """Return Wilson's interval of a share to which rows add in part, or with weights.

    The size is that of as many rows of one weight, each right or wrong, as would vary as much.
    What the clusters are worth by their weights is the size if all of a cluster were right or wrong
    together (Kish 1965, Survey Sampling, 11.7). It counts as if one more row had told it, and is
    all there is to go by where all rows are alike.
    """
    if is_one(clusters.count) and clusters.too_few:
        return UNKNOWN
    possible = share * (1 - share)
    worst = divide(1, clusters.worth)
    seen = divide(spread * clusters.inflation * (n - 1) / n, possible)
    seen = choose(possible > _NO_INFLUENCE, seen, worst)
    unlike = n * at_most(share, 1 - share) * clusters.telling
    size = divide(1, seen + at_least(0.0, worst - seen) / (unlike + 1))
    z = t_quantile(clusters, confidence)
    found = _score_interval(share, size, z, compute_error(spread, clusters), confidence)
    return _hide(clusters.too_few, found) if is_anywhere(clusters.too_few) else found


def count_worth(share: Any, n: Any, spread: Any, clusters: Any) -> Any:
    """Return the number of rows if each is its own cluster, else their effective number."""
    clusters = Clusters.of(clusters)
    if is_one(n) and clusters.count == n:
        return float(n)
    return choose(clusters.count == n, as_float(n), effective_size(share, n, spread, clusters))


def effective_size(
    share: Any, n: Any, spread: Any, clusters: Any, *, least: Any = 1.0, most: Any = inf
) -> Any:
    """Return the number of independent rows that are worth n rows in clusters, for a share.

    `least` is the least that the design effect can be, `most` what the rows are worth at most
    unless they show otherwise.
    """
    clusters = Clusters.of(clusters)
    if is_one(clusters.count) and clusters.too_few:
        return 0.0
    rarer, squares = n * at_most(share, 1 - share), n * share * (1 - share)
    effect = design_effect(spread, squares, n, clusters, rarer, least=least, most=most)
    return choose(clusters.too_few, 0.0, divide(n, effect))


def design_effect(
    spread: Any,
    squares: Any,
    n: Any,
    clusters: Any,
    unlike: Any = inf,
    *,
    least: Any = 1.0,
    most: Any = inf,
) -> Any:
    """Return the variance relative to that of as many independent rows; at least 1.

    Where the interval goes by t, `least` may be so much less that it is as wide as by the normal
    quantile and independent rows.

    `squares` is the sum over the rows of their squared influence, each times n. Few rows unlike the
    others tell little of how far those of a cluster depend on each other: as if one more had told
    the worst, that all the rows of a cluster are alike. The more a few clusters hold of all rows,
    the less those unlike the others tell.
    """
    clusters = Clusters.of(clusters)
    worst = divide(n, at_most(most, clusters.worth))
    of_clusters = spread * power(n, 2) * clusters.inflation
    effect = at_least(least, divide(of_clusters, divide(squares * n, n - 1)))
    seen = choose(squares > _NO_INFLUENCE * n, effect, worst)
    unlike = unlike * clusters.telling
    return seen + at_least(0.0, worst - seen) / (unlike + 1)


@lru_cache(maxsize=4096)  # groups are often of one size
def quantile_ranks(
    share: float, n: int, size: float, confidence: float
) -> tuple[int | None, int | None]:
    """Return the ranks, from 1, of the order statistics around the quantile `share` of n values.

    Exact by the binomial distribution (David & Nagaraja, Order Statistics, 7.1) for `size` = n;
    for fewer effective rows the ranks of that many, spread over the n.
    """
    trials = floor(size + _ROUNDING)
    if trials < 1:
        return None, None
    tail = (1 - confidence) / 2
    own = ceil(share * n)
    below = _find_largest_count(trials, share, tail) * n // trials
    above = _find_largest_count(trials, 1 - share, tail) * n // trials
    return min(below, own) if below else None, max(n + 1 - above, own) if above else None


@lru_cache(maxsize=4096)  # groups are often of one size
def _find_largest_count(trials: int, share: float, tail: float) -> int:
    """Return the largest k such that fewer than k successes have at most probability `tail`."""
    reach: float = special.ndtri(tail) * sqrt(trials * share * (1 - share))
    k = max(0, floor(trials * share + reach))
    while special.bdtr(k, trials, share) <= tail:
        k += 1
    while k > 0 and special.bdtr(k - 1, trials, share) > tail:
        k -= 1
    return k
