"""Exact and rank tests of samples: Fisher, Mann–Whitney, Kruskal–Wallis, Spearman."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt

import numpy as np

from calipers.statistics import special
from calipers.statistics.arrays import Floats

_SAME = 1e-11  # relative: probabilities this close are one, but for rounding


def fisher_p(hits: int, n: int, other_hits: int, other_n: int) -> float:
    """Return the two-sided p of Fisher's (1934) exact test of two shares.

    It adds up the tables with the same margins that are no more probable than the one at hand.

    >>> round(fisher_p(3, 4, 1, 4), 4)
    0.4857
    """
    found = hits + other_hits
    low, high = max(0, found - other_n), min(found, n)
    mode = min(high, max(low, (found + 1) * (n + 1) // (n + other_n + 2)))
    up = np.arange(mode + 1, high + 1, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    # Each probability over that of the most probable table, from the ratio to its neighbor.
    rising = np.cumprod((n - up + 1) / up * ((found - up + 1) / (other_n - found + up)))
    falling = np.cumprod(down / (n - down + 1) * ((other_n - found + down) / (found - down + 1)))
    chances = np.concatenate([falling[::-1], [1.0], rising])
    counted = chances <= chances[hits - low] * (1 + _SAME)
    return min(1.0, float(np.sort(chances[counted]).sum() / np.sort(chances).sum()))


def mann_whitney_exact(u: int, n: int, m: int) -> float:
    """Return the two-sided p of U among all orders of n and m values without ties.

    >>> mann_whitney_exact(17, 5, 4) == 1 / 9
    True
    """
    most = min(u, n * m - u)
    ways = [1] + [0] * most  # of each U: the coefficients of a Gaussian binomial
    for size in range(m + 1, m + n + 1):
        for at in range(most, size - 1, -1):
            ways[at] -= ways[at - size]
    for size in range(1, n + 1):
        for at in range(size, most + 1):
            ways[at] += ways[at - size]
    return min(1.0, 2 * sum(ways) / comb(n + m, n))


def mann_whitney_normal(u: float, n: int, m: int, ties: Floats) -> float:
    """Return the two-sided p of U by the normal distribution, corrected for ties and continuity."""
    total = n + m
    tied = float((ties**3 - ties).sum()) / (total * (total - 1))
    spread = sqrt(n * m / 12 * (total + 1 - tied))
    beyond = abs(u - n * m / 2) - 0.5
    return min(1.0, 2 * special.ndtr(-beyond / spread))


def kruskal(samples: Sequence[Floats]) -> tuple[float, float]:
    """Return H of Kruskal & Wallis (1952), corrected for ties, and its χ² p."""
    ranks, ties = rank_average(np.concatenate(samples))
    n = ranks.size
    ends = np.cumsum([sample.size for sample in samples])[:-1]
    squares = sum(float(part.sum()) ** 2 / part.size for part in np.split(ranks, ends))
    h = 12 / (n * (n + 1)) * squares - 3 * (n + 1)
    h /= 1 - float((ties**3 - ties).sum()) / (n**3 - n)
    return h, special.chdtrc(len(samples) - 1, max(0.0, h))


def spearman(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the rank correlation (Spearman 1904) and its two-sided p by Student's t.

    >>> round(spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4]))[0], 9)
    0.8
    """
    r = float(np.corrcoef(rank_average(first)[0], rank_average(second)[0])[0, 1])
    r = max(-1.0, min(1.0, r))
    freedom = first.size - 2
    if abs(r) == 1:
        return r, 0.0
    return r, 2 * special.stdtr(freedom, -abs(r) * sqrt(freedom / ((1 + r) * (1 - r))))


def rank_average(values: Floats) -> tuple[Floats, Floats]:
    """Return each value's rank, the mean of their ranks where several are equal, and the ties."""
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return ranks[at], counts.astype(np.float64)
