"""Independent samples, with no task in common: differences of means, of proportions and of ranks.

The exact tests and rank tests behind them are here too: Fisher, Mann–Whitney, Kruskal–Wallis, and
Spearman's rank correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import asin, comb, hypot, sqrt

import numpy as np
from numpy.typing import ArrayLike

from calipers.statistics import special
from calipers.statistics.clusters import Floats, Labels, Whole, as_finite
from calipers.statistics.intervals import normal_quantile, score_bounds
from calipers.statistics.paired import (
    ROUNDING,
    Difference,
    Tail,
    estimate_mean,
    require_binary,
    student,
)

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


_EXACT = 20  # values in each sample, up to which Mann–Whitney is enumerated


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast(Difference):
    """The difference of two independent samples, and what ranks say of it."""

    n_base: int
    n_candidate: int
    effect_low: float | None = None
    effect_high: float | None = None
    rank_p: float | None = None
    rank_test: str | None = None


def compare_unpaired(
    base: ArrayLike,
    candidate: ArrayLike,
    *,
    binary: bool,
    confidence: float = 0.95,
    base_clusters: ArrayLike | None = None,
    candidate_clusters: ArrayLike | None = None,
    endless: bool = False,
) -> Contrast:
    """Return the comparison of two independent samples.

    Of 0 and 1: Fisher's exact test, Newcombe's interval, Cohen's h. Else Welch's t, for p and
    interval of the means, and Cliff's delta with the Mann–Whitney test: these are of the order of
    the values, which may differ where means do not. With clusters (repeated runs of a task) Welch's
    t is cluster-robust for either kind, and the rank test and Cliff's delta are of cluster means.
    A cluster belongs to one sample: tasks in both are for `paired`. Of `endless` values, such as
    costs, the interval goes by their skewness as well.

    >>> compare_unpaired([1, 0, 0, 0], [1, 1, 1, 0], binary=True).difference
    0.5
    """
    first, second = as_finite(base), as_finite(candidate)
    groups = [
        None if each is None else np.asarray(each) for each in (base_clusters, candidate_clusters)
    ]
    clustered = base_clusters is not None or candidate_clusters is not None
    exact = binary and not clustered
    of_what = " of cluster means" if clustered else ""
    found = partial(
        Contrast,
        n_base=first.size,
        n_candidate=second.size,
        test="Fisher's exact" if exact else "clustered Welch t" if clustered else "Welch t",
        interval="Newcombe" if exact else "t",
        effect_name="Cohen's h" if exact else f"Cliff's delta{of_what}",
    )
    if not (first.size and second.size):
        return found(difference=None, reason="a sample is empty")
    if exact:
        require_binary(first, second)
        hits, other_hits = int(second.sum()), int(first.sum())
        before, after = float(first.mean()), float(second.mean())
        low, high, p_value = compare_shares(
            other_hits, first.size, hits, second.size, confidence=confidence
        )
        return found(
            difference=after - before,
            low=low,
            high=high,
            stderr=sqrt(before * (1 - before) / first.size + after * (1 - after) / second.size),
            p_value=p_value,
            effect=2 * (asin(sqrt(after)) - asin(sqrt(before))),
        )
    difference, stderr, evidence = compare_means(
        SampleMean.of(first, groups[0], endless=endless),
        SampleMean.of(second, groups[1], endless=endless),
        confidence=confidence,
    )
    low_t, high_t, p_t, reason = evidence
    units = merge_rounded(_average_clusters(first, groups[0]), _average_clusters(second, groups[1]))
    rank_p, rank_test = mann_whitney(*units)
    effect, effect_low, effect_high = cliff_delta(*units, confidence=confidence)
    return found(
        difference=difference,
        low=low_t,
        high=high_t,
        stderr=stderr,
        p_value=p_t,
        effect=effect,
        effect_low=effect_low,
        effect_high=effect_high,
        rank_p=rank_p,
        rank_test=rank_test + of_what,
        reason=reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMean:
    """The mean of a sample, and what it takes to compare it with that of another."""

    mean: float
    stderr: float | None  # None of a single value or cluster
    freedom: float
    largest: float
    tail: Tail | None  # of values without an end

    @classmethod
    def of(cls, values: Floats, groups: Labels | None, *, endless: bool) -> SampleMean:
        """Return that of a sample of at least one value."""
        mean, stderr, freedom = estimate_mean(values, groups)
        assert mean is not None
        return cls(
            mean=mean,
            stderr=stderr,
            freedom=freedom,
            largest=float(np.abs(values).max()),
            tail=Tail.of(values, groups) if endless else None,
        )


Evidence = tuple[float | None, float | None, float | None, str | None]


def compare_means(
    base: SampleMean, candidate: SampleMean, *, confidence: float
) -> tuple[float, float | None, Evidence]:
    """Return the difference of means, its error, and interval, p and reason by Welch's (1947) t.

    Degrees of freedom are Satterthwaite's (1946). A difference that is rounding is 0.
    """
    largest = max(base.largest, candidate.largest)
    difference = candidate.mean - base.mean
    difference = difference if abs(difference) > ROUNDING * largest else 0.0
    stderr: float | None = None
    freedom = 0.0
    if base.stderr is not None and candidate.stderr is not None:
        stderr = hypot(base.stderr, candidate.stderr)
        share = (base.stderr / stderr) ** 2 if stderr else 0.0
        freedom = 1 / (share**2 / base.freedom + (1 - share) ** 2 / candidate.freedom)
    tail = _join_tails(base, candidate) if stderr else Tail()
    evidence = student(
        difference, stderr, freedom, largest=largest, confidence=confidence, tail=tail
    )
    return difference, stderr, evidence


def _join_tails(base: SampleMean, candidate: SampleMean) -> Tail:
    """Return the tail of a difference of means: third moments subtract, as second ones add up."""
    first, second = base.tail, candidate.tail
    if first is None or second is None:
        return Tail()
    before, after = base.stderr or 0.0, candidate.stderr or 0.0
    third = second.skewness * after**3 - first.skewness * before**3
    return Tail(skewness=third / hypot(before, after) ** 3, worth=min(first.worth, second.worth))


def compare_shares(
    base_hits: int, n_base: int, hits: int, n: int, *, confidence: float
) -> tuple[float, float, float]:
    """Return Newcombe's bounds of the difference of two shares, and the p of Fisher's test."""
    before, after = base_hits / n_base, hits / n
    low, high = newcombe(before, n_base, after, n, confidence=confidence)
    return low, high, fisher_p(hits, n, base_hits, n_base)


def newcombe(
    before: float, n_before: int, after: float, n_after: int, *, confidence: float
) -> tuple[float, float]:
    """Return the score interval of a difference of shares: Newcombe (1998), method 10."""
    z = normal_quantile(confidence)
    low_before, high_before = score_bounds(before, n_before, z)
    low_after, high_after = score_bounds(after, n_after, z)
    below = hypot(after - low_after, high_before - before)
    above = hypot(high_after - after, before - low_before)
    return after - before - below, after - before + above


def merge_rounded(*samples: Floats) -> list[Floats]:
    """Return the samples, values that only rounding tells apart made equal, so that they tie.

    The mean of a task's runs depends on their order, in its last digits; its rank must not.

    >>> means = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    >>> means[0] == means[1], merge_rounded(np.array([means[0]]), np.array([means[1]]))
    (False, [array([0.2]), array([0.2])])
    """
    if not sum(sample.size for sample in samples):
        return list(samples)
    values = np.concatenate(samples)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reach = ROUNDING * np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
    starts = np.concatenate([[True], np.diff(ordered) > reach])
    merged = np.empty_like(values)
    merged[order] = ordered[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    return np.split(merged, np.cumsum([sample.size for sample in samples])[:-1])


def mann_whitney(base: Floats, candidate: Floats) -> tuple[float, str]:
    """Return the two-sided p of Mann & Whitney (1947), and the method used.

    Exact for small samples without ties, else by the normal distribution, corrected for ties and
    continuity.
    """
    n, m = candidate.size, base.size
    ties = np.unique(np.concatenate([base, candidate]), return_counts=True)[1].astype(np.float64)
    if ties.size == 1:
        return 1.0, "Mann–Whitney (all values equal)"
    below, above = _count_sides(candidate, base)
    u = float((below + m - above).sum()) / 2  # pairs in which the candidate is larger, or half
    if ties.size == n + m and max(n, m) <= _EXACT:
        return mann_whitney_exact(int(u), n, m), "Mann–Whitney (exact)"
    return mann_whitney_normal(u, n, m, ties), "Mann–Whitney (asymptotic)"


def cliff_delta(
    base: Floats, candidate: Floats, *, confidence: float
) -> tuple[float, float | None, float | None]:
    """Return P(candidate > base) − P(candidate < base) with its interval, in O(n log n).

    Cliff (1993, 1996): the consistent variance, no less than (1 − δ²)/(nm − 1); the asymmetric
    interval of Feng & Cliff (2004). Without overlap the open bound is Wilson's for the smaller
    sample. The interval needs two values in each sample.
    """
    n, m = candidate.size, base.size
    below, above = _count_sides(candidate, base)
    rows, decided = (below - above) / m, int((below + above).sum())
    delta = float(rows.mean())
    if min(n, m) <= 1:
        return delta, None, None
    t = special.stdtrit(n + m - 2, (1 + confidence) / 2)
    if abs(delta) == 1:
        bound = (min(n, m) - t * t) / (min(n, m) + t * t)
        return (delta, bound, 1.0) if delta > 0 else (delta, -1.0, -bound)
    below, above = _count_sides(base, candidate)
    by_row, by_column = rows.var(ddof=1), ((below - above) / n).var(ddof=1)
    by_cell = (decided - n * m * delta**2) / ((n - 1) * (m - 1))
    variance = float((m - 1) * by_row + (n - 1) * by_column + by_cell) / (n * m)
    squared = t * t * max(variance, (1 - delta**2) / (n * m - 1))
    centre, reach = delta - delta**3, sqrt(squared * ((1 - delta**2) ** 2 + squared))
    whole = 1 - delta**2 + squared
    return delta, (centre - reach) / whole, (centre + reach) / whole


def _count_sides(values: Floats, others: Floats) -> tuple[Whole, Whole]:
    """Return how many of the others lie below each value, and how many above."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, side="left")
    return below, others.size - np.searchsorted(ordered, values, side="right")


@dataclass(frozen=True, slots=True, kw_only=True)
class KruskalWallis:
    """Whether several samples come from one distribution; ε² is 0 when they may, 1 at most."""

    h: float | None = None
    p_value: float | None = None
    epsilon_squared: float | None = None
    n: int
    reason: str | None = None


def kruskal_wallis(samples: Sequence[ArrayLike]) -> KruskalWallis:
    """Return H corrected for ties (Kruskal & Wallis 1952), its χ² p, and ε² = H / (n − 1).

    The effect size is that of Tomczak & Tomczak (2014), Trends in Sport Sciences 21, 19.
    """
    filled = merge_rounded(*(sample for sample in map(as_finite, samples) if sample.size))
    n = sum(sample.size for sample in filled)
    if len(filled) <= 1:
        return KruskalWallis(n=n, reason="fewer than two samples hold values")
    if np.unique(np.concatenate(filled)).size == 1:
        return KruskalWallis(n=n, reason="all values are equal")
    h, p_value = kruskal(filled)
    return KruskalWallis(h=h, p_value=p_value, epsilon_squared=h / (n - 1), n=n)


def _average_clusters(values: Floats, clusters: Labels | None) -> Floats:
    """Return the mean of each cluster; without clusters the values themselves."""
    if clusters is None:
        return values
    _, at, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.bincount(at, weights=values) / counts
