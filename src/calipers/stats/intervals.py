"""Intervals from a value, how far its clusters spread, and how many clusters there are.

`spread` is the sum over clusters of the square of the cluster's influence on the value: for a mean
of n rows, Σ_c (Σ_i (x_ic − mean))² / n². With a cluster per row this is the textbook's variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, sqrt

_TOO_FEW = 2  # clusters: one alone says nothing of how far the next may lie
_ROUNDING = 1e-9
_NO_INFLUENCE = 1e-12  # per row, squared: what rounding leaves of 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the value may lie; a bound that the data cannot give is null."""

    low: float | None
    high: float | None
    stderr: float | None


UNKNOWN = Interval(low=None, high=None, stderr=None)


def standard_error(spread: float, clusters: int) -> float | None:
    """The square root of C/(C−1) times the spread (Miller 2024, arXiv 2411.00640)."""
    return sqrt(spread * clusters / (clusters - 1)) if clusters >= _TOO_FEW else None


def normal_quantile(confidence: float) -> float:
    """How many standard errors an interval reaches where their size is known."""
    from scipy import special  # noqa: PLC0415 (slow to load)

    return float(special.ndtri((1 + confidence) / 2))


def t_quantile(clusters: int, confidence: float) -> float:
    """How many standard errors the interval reaches, by Student's t with C − 1 degrees."""
    from scipy import special  # noqa: PLC0415 (slow to load)

    return float(special.stdtrit(clusters - 1, (1 + confidence) / 2))


def t_interval(value: float, spread: float, clusters: int, confidence: float) -> Interval:
    """The value ± t standard errors."""
    stderr = standard_error(spread, clusters)
    if stderr is None:
        return UNKNOWN
    reach = t_quantile(clusters, confidence) * stderr
    return Interval(low=value - reach, high=value + reach, stderr=stderr)


def wilson(share: float, n: int, spread: float, clusters: int, confidence: float) -> Interval:
    """Wilson's score interval (1927) of a share of n rows.

    Where rows come in clusters, with as many rows as would be worth as much if they were
    independent, and with Student's t for the normal quantile.
    """
    z = normal_quantile(confidence)
    size = float(n)
    if clusters < n:
        if clusters < _TOO_FEW:
            return UNKNOWN
        z = t_quantile(clusters, confidence)
        size = effective_size(share, n, spread, clusters)
    return _score_interval(share, size, z, standard_error(spread, clusters))


def _score_interval(share: float, size: float, z: float, stderr: float | None) -> Interval:
    """All shares that lie within z of their own standard errors for so many rows."""
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size) * sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    return Interval(
        low=0.0 if share == 0 else max(0.0, middle - reach),
        high=1.0 if share == 1 else min(1.0, middle + reach),
        stderr=stderr,
    )


def exact_share(share: float, size: float, confidence: float) -> tuple[float, float]:
    """The bounds by the binomial distribution itself (Clopper & Pearson 1934) for so many rows.

    The true share lies outside with at most the probability asked for, whatever it is; that makes
    them wider than Wilson's. Rows in clusters count as many as they are worth (Korn & Graubard
    1998, Survey Methodology 24, 193).

    >>> low, high = exact_share(0.97, 100, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.9148, 0.9938)
    """
    from scipy import special  # noqa: PLC0415 (slow to load)

    tail = (1 - confidence) / 2
    successes = share * size
    low = special.betaincinv(successes, size - successes + 1, tail) if successes else 0.0
    high = special.betaincinv(successes + 1, size - successes, 1 - tail) if share < 1 else 1.0
    return float(low), float(high)


def partial_wilson(
    share: float, n: int, spread: float, clusters: int, worst: float, confidence: float
) -> Interval:
    """Wilson's interval of a share to which rows add in part, or with weights of their own.

    The size is that of as many rows of one weight, each right or wrong, as would vary as much.
    `worst` is one over the size if all of a cluster were right or wrong together, Σ over clusters
    of its share of the weight, squared (Kish 1965, Survey Sampling, 11.7). It counts as if one more
    row had told it, and is all there is to go by where all rows are alike.
    """
    if clusters < _TOO_FEW:
        return UNKNOWN
    possible = share * (1 - share)
    seen = worst
    if possible > _NO_INFLUENCE:
        seen = spread * clusters / (clusters - 1) * (n - 1) / n / possible
    unlike = n * min(share, 1 - share)
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    z = t_quantile(clusters, confidence)
    return _score_interval(share, size, z, standard_error(spread, clusters))


def rows_worth(share: float, n: int, spread: float, clusters: int) -> float:
    """As many as there are where each is its own cluster, else their effective size."""
    return float(n) if clusters == n else effective_size(share, n, spread, clusters)


def effective_size(share: float, n: int, spread: float, clusters: int) -> float:
    """How many independent rows would say as much of a share as n rows in clusters do."""
    if clusters < _TOO_FEW:
        return 0.0
    rarer = n * min(share, 1 - share)
    return n / design_effect(spread, n * share * (1 - share), n, clusters, rarer)


def design_effect(
    spread: float, squares: float, n: int, clusters: int, unlike: float = inf
) -> float:
    """How many times the variance is that of as many independent rows; at least 1.

    `squares` is the sum over the rows of their squared influence, each times n. Few rows unlike the
    others tell little of how far those of a cluster depend on each other: as if one more had told
    the worst, that all the rows of a cluster are alike.
    """
    worst = n / clusters
    seen = worst
    if squares > _NO_INFLUENCE * n:
        of_clusters = spread * n**2 * clusters / (clusters - 1)
        seen = max(1.0, of_clusters / (squares * n / (n - 1)))
    return seen + max(0.0, worst - seen) / (unlike + 1)


def quantile_ranks(
    share: float, n: int, size: float, confidence: float
) -> tuple[int | None, int | None]:
    """The ranks, from 1, of the order statistics around the quantile `share` of n values.

    Exact by the binomial distribution (David & Nagaraja, Order Statistics, 7.1) for `size` = n;
    for fewer effective rows the ranks of that many, spread over the n.
    """
    trials = floor(size + _ROUNDING)
    if trials < 1:
        return None, None
    tail = (1 - confidence) / 2
    own = ceil(share * n)
    below = _most(trials, share, tail) * n // trials
    above = _most(trials, 1 - share, tail) * n // trials
    return min(below, own) if below else None, max(n + 1 - above, own) if above else None


def _most(trials: int, share: float, tail: float) -> int:
    """The largest k such that fewer than k successes have at most the probability `tail`."""
    from scipy import special  # noqa: PLC0415 (slow to load)

    k = max(0, floor(trials * share + special.ndtri(tail) * sqrt(trials * share * (1 - share))))
    while special.bdtr(k, trials, share) <= tail:
        k += 1
    while k > 0 and special.bdtr(k - 1, trials, share) > tail:
        k -= 1
    return k
