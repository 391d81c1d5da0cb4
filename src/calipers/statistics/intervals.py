"""Intervals from a value, how far its clusters spread, and how many clusters there are.

`spread` is the sum over clusters of the square of the cluster's influence on the value: for a mean
of n rows, Σ_c (Σ_i (x_ic − mean))² / n². With a cluster per row this is the textbook's variance.
Clusters are given as `Clusters`, or as a bare number where all are of one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, floor, hypot, inf, isfinite, sqrt

from calipers.statistics import special
from calipers.statistics.clusters import Clusters

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
    """Where the value may lie; a bound that the data cannot give is null, with the reason."""

    low: float | None
    high: float | None
    stderr: float | None
    reason: str | None = None
    worth: float | None = None  # of a share: as many independent rows would say as much


UNKNOWN = Interval(low=None, high=None, stderr=None, reason=ONE_CLUSTER)


def standard_error(spread: float, clusters: int | Clusters) -> float | None:
    """Return the square root of C/(C−1) times the spread (Miller 2024, arXiv 2411.00640).

    Where clusters are of unequal size the factor is larger; None where there are fewer than two.
    """
    clusters = Clusters.of(clusters)
    return None if clusters.too_few else sqrt(spread * clusters.inflation)


def normal_quantile(confidence: float) -> float:
    """Return the number of standard errors that an interval extends, their size being known."""
    return special.ndtri((1 + confidence) / 2)


def t_quantile(clusters: int | Clusters, confidence: float) -> float:
    """Return the number of standard errors that the interval extends, by Student's t."""
    return special.stdtrit(Clusters.of(clusters).degrees, (1 + confidence) / 2)


def t_interval(
    value: float, spread: float, clusters: int | Clusters, confidence: float
) -> Interval:
    """Return the value ± t standard errors."""
    stderr = standard_error(spread, clusters)
    if stderr is None:
        return UNKNOWN
    reach = t_quantile(clusters, confidence) * stderr
    return Interval(low=value - reach, high=value + reach, stderr=stderr)


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
    if worth <= _TWO or abs(skewness) * worth <= sqrt(_OF_CHANCE):
        return None

    def invert(quantile: float) -> float:
        inner = max(0.0, 1 + skewness * (quantile - skewness / 6))
        return float(3 / skewness * (inner ** (1 / 3) - 1))

    return invert(t), -invert(-t)


def transform_skewed(statistic: float, skewness: float) -> float:
    """Return Hall's transformation of Student's t of a skewed mean: `skewed_reach` inverts it.

    Where the inverse does not reach, it is the statistic itself.
    """
    if skewness * statistic <= _FLAT:
        return statistic
    cubic = skewness**2 * statistic**3 / 27
    return statistic + skewness * statistic**2 / 3 + cubic + skewness / 6


def positive_interval(
    value: float,
    spread: float,
    clusters: int | Clusters,
    confidence: float,
    *,
    skewness: float = 0.0,
) -> Interval:
    """Return the interval of a mean or ratio that is never negative and has no upper bound.

    ± t standard errors on the scale of the logarithm: such values mostly have a long upper tail.
    Where it is longer than that, the upper bound goes by the values' skewness (`skewed_reach`).
    Values without any spread do not tell how far others lie: then both bounds are null.
    """
    stderr = standard_error(spread, clusters)
    if stderr is None:
        return UNKNOWN
    clusters = Clusters.of(clusters)
    if clusters.count > _TWO > clusters.worth:
        return Interval(low=None, high=None, stderr=stderr, reason=ONE_HOLDS_MOST)
    if value <= 0 or stderr <= _ROUNDING * value:
        return Interval(low=None, high=None, stderr=stderr, reason=NO_SPREAD)
    t = t_quantile(clusters, confidence)
    factor = exp(min(t * stderr / value, _STEEPEST))
    high = value * factor
    if skewness > 0 and (reach := skewed_reach(skewness, clusters.worth, t)) is not None:
        high = max(high, value + reach[1] * stderr)
    return Interval(low=value / factor, high=high, stderr=stderr)


def unbounded_interval(
    value: float,
    spread: float,
    clusters: int | Clusters,
    confidence: float,
    *,
    skewness: float = 0.0,
) -> Interval:
    """Return the interval of a mean of unbounded values: ± t standard errors.

    On the side of a long tail it reaches as far as the values' skewness asks (`skewed_reach`).
    Values without any spread do not tell how far others lie: then both bounds are null.
    """
    around = t_interval(value, spread, clusters, confidence)
    if around.stderr is None:
        return around
    clusters = Clusters.of(clusters)
    if clusters.count > _TWO > clusters.worth:
        return Interval(low=None, high=None, stderr=around.stderr, reason=ONE_HOLDS_MOST)
    if around.stderr <= _ROUNDING * abs(value):
        return Interval(low=None, high=None, stderr=around.stderr, reason=NO_SPREAD)
    reach = skewed_reach(skewness, clusters.worth, t_quantile(clusters, confidence))
    if reach is None or around.low is None or around.high is None:
        return around
    low = min(around.low, value - reach[0] * around.stderr)
    high = max(around.high, value + reach[1] * around.stderr)
    return Interval(low=low, high=high, stderr=around.stderr)


def bounded_interval(
    value: float,
    spread: float,
    clusters: int | Clusters,
    confidence: float,
    *,
    ends: tuple[float, float] = (0.0, 1.0),
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
    stderr = standard_error(spread, clusters)
    if stderr is None:
        return UNKNOWN
    lowest, highest = ends
    width = highest - lowest
    mean = min(1.0, max(0.0, (value - lowest) / width))
    if _is_share(mean, spread / width**2, clusters):
        around = wilson(mean, clusters.count, spread / width**2, clusters, confidence)
        assert around.low is not None
        assert around.high is not None
        return Interval(
            low=lowest + width * around.low, high=lowest + width * around.high, stderr=stderr
        )
    low, high = _move_on_log_odds(mean, t_quantile(clusters, confidence) * stderr / width)
    z = normal_quantile(confidence)
    unseen = z * z / (clusters.worth + z * z)
    variance = (stderr / width) ** 2 * clusters.worth
    below = hypot(mean - low, unseen * mean * _weigh_unseen(variance, tight * mean))
    above = hypot(high - mean, unseen * (1 - mean) * _weigh_unseen(variance, tight * (1 - mean)))
    return Interval(
        low=lowest + width * max(0.0, mean - below),
        high=lowest + width * min(1.0, mean + above),
        stderr=stderr,
    )


def interval_of_mean(
    value: float,
    spread: float,
    clusters: int | Clusters,
    confidence: float,
    *,
    ends: tuple[float, float],
    tight: float = TIGHT,
    skewness: float = 0.0,
) -> Interval:
    """Return the interval of a mean of values between two ends, either of which may be infinite."""
    if all(map(isfinite, ends)):
        return bounded_interval(value, spread, clusters, confidence, ends=ends, tight=tight)
    of_values = positive_interval if ends[0] == 0 else unbounded_interval
    return of_values(value, spread, clusters, confidence, skewness=skewness)


def _is_share(mean: float, spread: float, clusters: Clusters) -> bool:
    """Say whether all of the clusters' values lie at the ends: no others spread so far."""
    possible = mean * (1 - mean)
    if possible < _NO_INFLUENCE or clusters.worth < clusters.count * (1 - _ALIKE):
        return False
    return spread * clusters.count >= possible * (1 - _ALIKE)


def _move_on_log_odds(mean: float, reach: float) -> tuple[float, float]:
    """Return the bounds `reach` away from the mean, divided by the slope, on log odds."""
    possible = mean * (1 - mean)
    if possible < _NO_INFLUENCE or not reach:
        return mean, mean
    odds, factor = mean / (1 - mean), exp(min(reach / possible, _STEEPEST))
    return odds / (odds + factor), odds / (odds + 1 / factor)


def _weigh_unseen(variance: float, tight: float) -> float:
    """Return the weight of the unseen: 1 without spread, ½ at `tight` of the way to the end."""
    square = tight**2  # 0 for the smallest numbers
    return square / (square + variance) if square else 0.0


def wilson(
    share: float,
    n: int,
    spread: float,
    clusters: int | Clusters,
    confidence: float,
    *,
    most: float = inf,
) -> Interval:
    """Return Wilson's score interval (1927) of a share of n rows.

    Where rows come in clusters, or are worth `most` rows at most, with as many rows as would be
    worth as much if they were independent, and with Student's t for the normal quantile.
    """
    clusters = Clusters.of(clusters)
    z = normal_quantile(confidence)
    size = float(n)
    if clusters.count < n or most < n:
        if clusters.too_few:
            return UNKNOWN
        normal, z = z, t_quantile(clusters, confidence)
        size = effective_size(share, n, spread, clusters, least=(normal / z) ** 2, most=most)
    return _score_interval(share, size, z, standard_error(spread, clusters), confidence)


def _score_interval(
    share: float,
    size: float,
    z: float,
    stderr: float | None,
    confidence: float,
) -> Interval:
    """Return all shares within z of their own standard errors for this effective size.

    Where few rows are unlike the others that is too tight on their side: by itself it would hold
    84 % near 0 and 1. There the bound is that of the exact interval which misses twice as often.
    """
    worth = size * (normal_quantile(confidence) / z) ** 2
    low, high = score_bounds(share, size, z)
    if share > 0:
        low = min(low, _find_exact_low(share * size, size, 1 - confidence))
    if share < 1:
        high = max(high, 1 - _find_exact_low((1 - share) * size, size, 1 - confidence))
    return Interval(low=low, high=high, stderr=stderr, worth=worth)


def _find_exact_low(rows: float, size: float, tail: float) -> float:
    """Return the exact lower bound of a share of these rows that errs with probability `tail`."""
    rows = max(1.0, rows)
    return special.betaincinv(rows, max(0.0, size - rows) + 1, min(0.5, tail))


def score_bounds(share: float, size: float, z: float) -> tuple[float, float]:
    """Return Wilson's bounds, from which other methods are built."""
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size) * sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    low = 0.0 if share == 0 else max(0.0, middle - reach)
    return low, 1.0 if share == 1 else min(1.0, middle + reach)


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
    share: float, n: int, spread: float, clusters: Clusters, confidence: float
) -> Interval:
    """Return Wilson's interval of a share to which rows add in part, or with weights.

    The size is that of as many rows of one weight, each right or wrong, as would vary as much.
    What the clusters are worth by their weights is the size if all of a cluster were right or wrong
    together (Kish 1965, Survey Sampling, 11.7). It counts as if one more row had told it, and is
    all there is to go by where all rows are alike.
    """
    if clusters.too_few:
        return UNKNOWN
    possible = share * (1 - share)
    worst = seen = 1 / clusters.worth
    if possible > _NO_INFLUENCE:
        seen = spread * clusters.inflation * (n - 1) / n / possible
    unlike = n * min(share, 1 - share) * clusters.telling
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    z = t_quantile(clusters, confidence)
    return _score_interval(share, size, z, standard_error(spread, clusters), confidence)


def count_worth(share: float, n: int, spread: float, clusters: int | Clusters) -> float:
    """Return the number of rows if each is its own cluster, else their effective number."""
    clusters = Clusters.of(clusters)
    return float(n) if clusters.count == n else effective_size(share, n, spread, clusters)


def effective_size(
    share: float,
    n: int,
    spread: float,
    clusters: int | Clusters,
    *,
    least: float = 1.0,
    most: float = inf,
) -> float:
    """Return the number of independent rows that are worth n rows in clusters, for a share.

    `least` is the least that the design effect can be, `most` what the rows are worth at most
    unless they show otherwise.
    """
    clusters = Clusters.of(clusters)
    if clusters.too_few:
        return 0.0
    rarer = n * min(share, 1 - share)
    squares = n * share * (1 - share)
    return n / design_effect(spread, squares, n, clusters, rarer, least=least, most=most)


def design_effect(
    spread: float,
    squares: float,
    n: int,
    clusters: int | Clusters,
    unlike: float = inf,
    *,
    least: float = 1.0,
    most: float = inf,
) -> float:
    """Return the variance relative to that of as many independent rows; at least 1.

    Where the interval goes by t, `least` may be so much less that it is as wide as by the normal
    quantile and independent rows.

    `squares` is the sum over the rows of their squared influence, each times n. Few rows unlike the
    others tell little of how far those of a cluster depend on each other: as if one more had told
    the worst, that all the rows of a cluster are alike. The more a few clusters hold of all rows,
    the less those unlike the others tell.
    """
    clusters = Clusters.of(clusters)
    worst = n / min(most, clusters.worth)
    seen = worst
    if squares > _NO_INFLUENCE * n:
        of_clusters = spread * n**2 * clusters.inflation
        seen = max(least, of_clusters / (squares * n / (n - 1)))
    unlike *= clusters.telling
    return seen + max(0.0, worst - seen) / (unlike + 1)


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
    reach = special.ndtri(tail) * sqrt(trials * share * (1 - share))
    k = max(0, floor(trials * share + reach))
    while special.bdtr(k, trials, share) <= tail:
        k += 1
    while k > 0 and special.bdtr(k - 1, trials, share) > tail:
        k -= 1
    return k
