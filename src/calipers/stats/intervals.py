"""Intervals from a value, how far its clusters spread, and how many clusters there are.

`spread` is the sum over clusters of the square of the cluster's influence on the value: for a mean
of n rows, Σ_c (Σ_i (x_ic − mean))² / n². With a cluster per row this is the textbook's variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

from scipy import special

_TOO_FEW = 2  # clusters: one alone says nothing of how far the next may lie


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
    return float(special.ndtri((1 + confidence) / 2))


def t_quantile(clusters: int, confidence: float) -> float:
    """How many standard errors the interval reaches, by Student's t with C − 1 degrees."""
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
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size) * sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    return Interval(
        low=0.0 if share == 0 else max(0.0, middle - reach),
        high=1.0 if share == 1 else min(1.0, middle + reach),
        stderr=standard_error(spread, clusters),
    )


def effective_size(share: float, n: int, spread: float, clusters: int) -> float:
    """How many independent rows would say as much of a share as n rows in clusters do.

    Where all rows agree nothing tells how much they depend on each other: then as many as clusters.
    """
    variance = spread * clusters / (clusters - 1) if clusters >= _TOO_FEW else 0.0
    if share in (0, 1) or variance == 0:
        return float(clusters)
    return min(float(n), share * (1 - share) / variance)


def quantile_ranks(
    share: float, n: int, size: float, confidence: float
) -> tuple[int | None, int | None]:
    """The ranks, from 1, of the order statistics around the quantile `share` of n values.

    Exact by the binomial distribution (David & Nagaraja, Order Statistics, 7.1) for `size` = n;
    for fewer effective rows the ranks of that many, spread over the n.
    """
    trials = max(1, round(size))
    tail = (1 - confidence) / 2
    low = _most(trials, share, tail)
    high = trials + 1 - _most(trials, 1 - share, tail)
    scale = n / trials
    return (
        floor(low * scale) if low >= 1 and floor(low * scale) >= 1 else None,
        min(n, ceil(high * scale)) if high <= trials else None,
    )


def _most(trials: int, share: float, tail: float) -> int:
    """The largest k such that fewer than k successes have at most the probability `tail`."""
    k = max(0, floor(trials * share + special.ndtri(tail) * sqrt(trials * share * (1 - share))))
    while special.bdtr(k, trials, share) <= tail:
        k += 1
    while k > 0 and special.bdtr(k - 1, trials, share) > tail:
        k -= 1
    return k
