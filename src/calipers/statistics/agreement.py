"""How far raters agree on the same units: shares, kappas, alphas and correlations.

A slope within groups says how far a rating moves with another number, each group compared with
itself.

>>> ratings = np.array([[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
>>> cohen_kappa(ratings, Sampling(clusters=np.arange(4))).value
0.5
>>> ratings = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
>>> round(kendall(ratings, Sampling(clusters=np.arange(4))).value, 4)
0.3333
>>> groups, x = np.repeat(np.arange(3), 2), np.array([0.0, 1, 0, 2, 0, 3])
>>> slope_within(x, 2 * x + 10 * groups, groups).slope
2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import copysign, sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from calipers.statistics.clusters import Floats, Labels, Whole
from calipers.statistics.estimates import (
    Estimate,
    PointEstimate,
    Sampling,
    code_ratings,
    count_ratings,
    estimate,
    estimate_share,
    explain_too_few,
    midranks,
    standardize,
    sum_lifted,
)
from calipers.statistics.paired import student

_NEAR_ONE = 1e-12  # of a correlation that is 1
_NO_VARIANCE = "a rater gives all units the same rating"


def _measure_pearson(ratings: Floats, weights: Floats | None = None) -> PointEstimate | str:
    """Return Pearson's correlation of two raters; interval by Fisher (1921)."""
    each, n = _sum_weights(ratings, weights)
    if (ratings.min(axis=0) == ratings.max(axis=0)).any():
        return _NO_VARIANCE
    first, second = (standardize(column, weights) for column in ratings.T)
    r = _clip_correlation(float((each * first) @ second) / n)
    return PointEstimate(
        value=r,
        influence=each * (first * second - r / 2 * (first**2 + second**2)) / n,
        textbook=1 / sqrt(n - 3) if n > 3 else None,  # noqa: PLR2004
        source="fisher_z",
    )


def _measure_spearman(ratings: Floats, weights: Floats | None = None) -> PointEstimate | str:
    """Return Spearman's rank correlation of two raters; interval by Bonett and Wright (2000)."""
    codes = [code_ratings(column) for column in ratings.T]
    ranks = [midranks(column, weights) for column in codes]
    point = _measure_pearson(np.column_stack(ranks), weights)
    if isinstance(point, str):
        return point
    (each, n), r = _sum_weights(ratings, weights), point.value
    first, second = (standardize(column, weights) for column in ranks)
    lifts = sum(
        sum_lifted(code, each * (other - r * own) / sqrt(np.cov(rank, aweights=each, ddof=0)) / n)
        for code, rank, own, other in (
            (codes[0], ranks[0], first, second),
            (codes[1], ranks[1], second, first),
        )
    )
    influence = point.influence + each * lifts
    return PointEstimate(
        value=r,
        influence=influence - each * influence.sum() / n,
        textbook=sqrt((1 + r**2 / 2) / (n - 3)) if n > 3 else None,  # noqa: PLR2004
        source="bonett_wright_z",
    )


def _measure_kendall(ratings: Floats) -> PointEstimate | str:
    """Return Kendall's tau-b of two raters; interval by Bonett and Wright (2000)."""
    n = len(ratings)
    first, second = (code_ratings(column) for column in ratings.T)
    free, free_too = (n - np.bincount(codes)[codes] for codes in (first, second))  # not tied
    if not (free.any() and free_too.any()):
        return _NO_VARIANCE
    agreed = _count_below(first, second) + _count_below(-first, -second)
    score = agreed - _count_below(first, -second) - _count_below(-first, second)
    scale = sqrt(float(free.sum()) * float(free_too.sum()))
    tau = _clip_correlation(float(score.sum()) / scale)
    ties = free / free.sum() + free_too / free_too.sum()
    return PointEstimate(
        value=tau,
        influence=2 * score / scale - tau * ties,
        textbook=sqrt(0.437 / (n - 4)) if n > 4 else None,  # noqa: PLR2004
        source="bonett_wright_z",
    )


def _sum_weights(ratings: Floats, weights: Floats | None) -> tuple[Floats, float]:
    """Return the weight of each unit, 1 where there are none, and their sum."""
    each = np.ones(len(ratings)) if weights is None else weights
    return each, float(each.sum())


def _clip_correlation(correlation: float) -> float:
    """Return a correlation with rounding errors next to ±1 removed."""
    return correlation if abs(correlation) < 1 - _NEAR_ONE else copysign(1.0, correlation)


def _count_below(first: Whole, second: Whole) -> Whole:
    """Return, for each unit, how many others both raters put below it.

    The units stand in the first rater's order; bit by bit of the second's, those with a 1 count the
    0s before them among the units that share all higher bits.
    """
    second = second - second.min()
    order = np.lexsort((-second, first))
    below = np.zeros(len(first), dtype=np.int64)
    for bit in reversed(range(int(second.max()).bit_length())):
        alike = second[order] >> (bit + 1)
        ones = (second[order] >> bit) & 1
        zeros = np.concatenate(([0], np.cumsum(1 - ones)))
        below[order] += ones * (zeros[1:] - zeros[np.searchsorted(alike, alike)])
        order = order[np.argsort(second[order] >> bit, kind="stable")]
    return below


pearson = partial(estimate, formula=_measure_pearson, every_rater=True)
spearman = partial(estimate, formula=_measure_spearman, every_rater=True)
kendall = partial(estimate, formula=_measure_kendall, every_rater=True)


_NO_SPREAD = 1e-12
NOTHING_DIFFERS = "no group has two values to compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """The slope with its interval; n counts the values in groups that tell something of it."""

    n: int
    slope: float | None = None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def slope_within(
    x: Floats,
    y: Floats,
    groups: Labels,
    *,
    clusters: Labels | None = None,
    confidence: float = 0.95,
) -> Slope:
    """Return the least-squares slope of y on x with a level of its own for each group.

    The interval is Student's t over clusters, which are the groups unless others are given
    (Liang & Zeger 1986, with G / (G − 1) as Cameron & Miller 2015 for few clusters).

    Args:
        x: a finite value each.
        y: a finite value each.
        groups: a label each; only differences within a group count.
        clusters: a label each; values that share one depend on each other.
        confidence: of the interval.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    off_x, off_y = _subtract_means(x, codes), _subtract_means(y, codes)
    spread = np.bincount(codes, weights=off_x**2)
    tells = spread[codes] > _NO_SPREAD * max(1.0, float(np.square(x).max(initial=0.0)))
    n = int(tells.sum())
    if not n:
        return Slope(n=0, reason=NOTHING_DIFFERS)
    off_x, off_y = off_x[tells], off_y[tells]
    total = float(np.square(off_x).sum())
    slope = float(off_x @ off_y) / total
    of = np.unique((groups if clusters is None else clusters)[tells], return_inverse=True)[1]
    moved = np.bincount(of, weights=off_x * (off_y - slope * off_x))
    count = moved.size
    stderr = None
    if count > 1:
        stderr = float(np.sqrt(count / (count - 1) * np.square(moved).sum())) / total
    largest = float(np.abs(off_y).max()) / float(np.abs(off_x).max())
    low, high, _, reason = student(slope, stderr, count - 1, largest=largest, confidence=confidence)
    return Slope(n=n, slope=slope, stderr=stderr, low=low, high=high, reason=reason)


def _subtract_means(values: Floats, codes: Labels) -> Floats:
    counts = np.bincount(codes)
    return values - (np.bincount(codes, weights=values) / np.maximum(counts, 1))[codes]


Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

_ONE_RATING = "all ratings are the same: agreement cannot be told from chance"


def sensitivity(table: Floats, sampling: Sampling) -> Estimate:
    """Return the share of what people (the second column) pass that the judge passes too."""
    found = table[:, 1] > 1 / 2
    none = "people passed none of the records"
    return estimate_share(table[found, 0] > 1 / 2, sampling.keep(found), none)


def specificity(table: Floats, sampling: Sampling) -> Estimate:
    """Return the share of what people (the second column) fail that the judge fails too."""
    found = table[:, 1] <= 1 / 2
    none = "people failed none of the records"
    return estimate_share(table[found, 0] <= 1 / 2, sampling.keep(found), none)


def percent_agreement(ratings: Floats, sampling: Sampling) -> Estimate:
    """Return the share of equal ratings among the pairs of a unit, averaged over units."""
    used = count_ratings(ratings) > 1
    none = explain_too_few(0, ratings.shape[1])
    if not used.any():
        return Estimate(value=None, n=0, reason=none)
    sizes = count_ratings(ratings[used])
    pairs = sizes * (sizes - 1)
    agreed = (_count_equal_pairs(ratings[used]) - sizes) / pairs
    return estimate_share(agreed, sampling.keep(used), none, rows=int(pairs.sum()) // 2)


def krippendorff_alpha(ratings: Floats, sampling: Sampling, *, level: Level) -> Estimate:
    """Return Krippendorff's alpha (2011); units may lack ratings."""
    return estimate(ratings, sampling, formula=partial(_measure_alpha, level=level))


def _measure_cohen(ratings: Floats, weights: Floats | None = None) -> PointEstimate | str:
    """Return Cohen's kappa (1960) of two raters; errors by Fleiss, Cohen and Everitt (1969)."""
    codes, (each, n) = code_ratings(ratings), _sum_weights(ratings, weights)
    (first, second), labels = codes.T, int(codes.max()) + 1
    if labels == 1:
        return _ONE_RATING
    p, q = (np.bincount(column, each, minlength=labels) / n for column in (first, second))
    differed = (first != second).astype(float)
    chance, apart = float(p @ q), float(each @ differed) / n
    kappa = 1 - apart / (1 - chance)
    influence = apart - differed - (1 - kappa) * (q[first] + p[second] - 2 * chance)
    variance = max(0.0, chance + chance**2 - float((p * q) @ (p + q))) / n
    return PointEstimate(
        value=kappa,
        influence=each * influence / (1 - chance) / n,
        textbook=sqrt(variance) / (1 - chance),
        source="chance_z",
        disagreement=1 - chance,
    )


def _measure_weighted(ratings: Floats, weights: Floats | None = None) -> PointEstimate | str:
    """Return Cohen's weighted kappa (1968) of two raters' numbers, with quadratic weights.

    It is Lin's concordance (1989) as well, and so needs no scale of labels.
    """
    codes, (each, n) = code_ratings(ratings), _sum_weights(ratings, weights)
    if (labels := int(codes.max()) + 1) == 1:
        return _ONE_RATING
    numbers = ratings / np.abs(ratings).max()  # no square overflows
    first, second = (numbers - numbers.mean()).T
    middle, other = float(each @ first) / n, float(each @ second) / n
    apart = (first - second) ** 2
    crossed = (first - other) ** 2 + (second - middle) ** 2
    mean_apart, chance = float(each @ apart) / n, float(each @ crossed) / n
    chance -= (middle - other) ** 2
    kappa = 1 - mean_apart / chance
    added = apart - mean_apart - (1 - kappa) * (crossed - float(each @ crossed) / n)
    p, q = (np.bincount(column, each, minlength=labels) / n for column in codes.T)
    return PointEstimate(
        value=kappa,
        influence=-each * added / chance / n,
        textbook=1 / sqrt(n),
        source="chance_z",
        disagreement=1 - float(p @ q),  # of full agreement it tells how little else there may be
    )


_FEWEST_SHARED = 15  # units of each pair, where raters left gaps


def _measure_mean_cohen(ratings: Floats) -> PointEstimate | str:
    """Return the mean of Cohen's kappa over the pairs of raters (Light 1971).

    Where raters left gaps, and a pair shares few units, no error is known: neither way to tell it
    held (80 to 84 % of simulations). Krippendorff's alpha allows for gaps.
    """
    pairs = [ratings[:, columns] for columns in combinations(range(ratings.shape[1]), 2)]
    points, influence, few = [], np.zeros(len(ratings)), False
    for pair in pairs:
        both = count_ratings(pair) > 1
        few = few or int(both.sum()) < min(_FEWEST_SHARED, len(ratings))
        point = _measure_cohen(pair[both]) if both.any() else _ONE_RATING
        if isinstance(point, str):
            return "not every pair of raters has a kappa"
        influence[both] += point.influence / len(pairs)
        points.append(point)
    return PointEstimate(
        value=float(np.mean([point.value for point in points])),
        influence=influence,
        textbook=None
        if few
        else float(np.linalg.norm([point.textbook or 0.0 for point in points])) / len(pairs),
        source="chance_z",
        disagreement=float(np.mean([point.disagreement for point in points])),
    )


def _measure_fleiss(ratings: Floats) -> PointEstimate | str:
    """Return Fleiss' kappa (1971) over the units that every rater rated."""
    codes = code_ratings(ratings)
    n, raters = codes.shape
    share = np.bincount(codes.ravel()) / codes.size
    if len(share) == 1:
        return _ONE_RATING
    agreed = (_count_equal_pairs(ratings) - raters) / (raters * (raters - 1))
    chance = float(share @ share)
    kappa = 1 - float(1 - agreed.mean()) / (1 - chance)
    by_chance = share[codes].mean(axis=1)
    influence = agreed - agreed.mean() - (1 - kappa) * 2 * (by_chance - chance)
    return PointEstimate(
        value=kappa,
        influence=influence / (1 - chance) / n,
        textbook=_estimate_error_by_chance(share) * sqrt(2 / (n * raters * (raters - 1))),
        source="chance_z",
        disagreement=1 - chance,
    )


def _estimate_error_by_chance(share: Floats) -> float:
    """Return the standard error of kappa of one unit that two raters label independently."""
    disagreement = float(1 - share @ share)
    variance = disagreement + disagreement**2 - 2 * float(share @ (1 - share) ** 2)
    return sqrt(max(0.0, variance)) / disagreement


class _Disagreements(NamedTuple):
    """Within units and among all ratings, and what one unit more of each kind would add."""

    within: Floats
    added_within: Floats
    among: float
    added_among: Floats


def _measure_alpha(
    ratings: Floats, weights: Floats | None = None, *, level: Level
) -> PointEstimate | str:
    units, _ = there = np.nonzero(~np.isnan(ratings))
    codes, sizes = code_ratings(ratings[there]), count_ratings(ratings)
    each, worth = _sum_weights(ratings, weights)
    n, each = len(ratings), each * (len(ratings) / worth)
    of, total = each[units], float(each @ sizes)
    share = np.bincount(codes, of) / total
    if len(share) == 1:
        return _ONE_RATING
    if level == "nominal":
        found = _measure_labels(ratings, units, codes, of)
    else:
        ordinal = level == "ordinal"
        numbers = midranks(codes, of) if ordinal else standardize(ratings[there])
        numbers = numbers - float(of @ numbers) / total
        found = _measure_numbers(numbers, units, codes if ordinal else None, of)
    ratio = (total - 1) * float(each @ found.within) / found.among
    added = (total - 1) * found.added_within - ratio * found.added_among
    influence = -(ratio * sizes / total + added / found.among)
    error = _estimate_error_by_chance(share) if level == "nominal" else 1.0
    return PointEstimate(
        value=1 - ratio,
        influence=each * (influence - float(each @ influence) / n),
        textbook=error * sqrt(float(each @ (2 * sizes / (sizes - 1))) * n / worth) / total,
        source="chance_z",
        disagreement=found.among / (total * (total - 1)) if level == "nominal" else None,
    )


def _measure_labels(ratings: Floats, units: Whole, codes: Whole, of: Floats) -> _Disagreements:
    """Return the disagreements of labels: two different ones are 1 apart. `of` are the weights."""
    sizes, counts, total = np.bincount(units), np.bincount(codes, of), float(of.sum())
    within = (sizes**2 - _count_equal_pairs(ratings)) / (sizes - 1)
    added = _sum_by_unit(units, np.asarray(2 * (total - counts[codes]), dtype=np.float64))
    return _Disagreements(within, within, float(total**2 - counts @ counts), added)


def _measure_numbers(
    numbers: Floats, units: Whole, codes: Whole | None, of: Floats
) -> _Disagreements:
    """Return the squared differences of numbers of mean 0; with codes, those of ranks."""
    sizes, total = np.bincount(units), float(of.sum())
    firsts = np.repeat(numbers[np.cumsum(sizes) - sizes], sizes)  # exactly 0 apart where all agree
    apart, apart_squared = (
        _sum_by_unit(units, numbers - firsts),
        _sum_by_unit(units, (numbers - firsts) ** 2),
    )
    within = 2 * (sizes * apart_squared - apart**2) / (sizes - 1)
    squares, all_squares = _sum_by_unit(units, numbers**2), float(of @ numbers**2)
    added_within, added_among = within, 2 * (sizes * all_squares + total * squares)
    if codes is not None:  # a rating more also lifts the ranks above it
        from_mean = numbers - (_sum_by_unit(units, numbers) / sizes)[units]
        steps = 4 * from_mean * (sizes / (sizes - 1))[units]
        added_within = within + _sum_by_unit(units, sum_lifted(codes, of * steps))
        lifted = sum_lifted(codes, of * 4 * total * numbers)
        added_among = added_among + _sum_by_unit(units, lifted)
    return _Disagreements(within, added_within, 2 * total * all_squares, added_among)


def _sum_by_unit(units: Whole, values: Floats) -> Floats:
    return np.asarray(np.bincount(units, weights=values))


def _count_equal_pairs(ratings: Floats) -> Floats:
    """Return the number of ordered pairs of equal ratings in each unit, self-pairs included."""
    units, _ = there = np.nonzero(~np.isnan(ratings))
    codes = code_ratings(ratings[there])
    labels = codes.max() + 1
    cells, counts = np.unique(units * labels + codes, return_counts=True)
    return _sum_by_unit(cells // labels, np.square(counts, dtype=np.float64))


cohen_kappa = partial(estimate, formula=_measure_cohen, every_rater=True)
weighted_kappa = partial(estimate, formula=_measure_weighted, every_rater=True)
mean_cohen_kappa = partial(estimate, formula=_measure_mean_cohen)
fleiss_kappa = partial(estimate, formula=_measure_fleiss, every_rater=True)
