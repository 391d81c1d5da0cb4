"""How far raters agree on units that several of them rated: shares, kappas and alphas.

>>> ratings = np.array([[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
>>> cohen_kappa(ratings, Sampling(clusters=np.arange(4))).value
0.5
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from calipers.statistics.arrays import Floats, Whole
from calipers.statistics.estimates import Estimate
from calipers.statistics.influence import (
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


def _measure_cohen(ratings: Floats) -> PointEstimate | str:
    """Return Cohen's kappa (1960) of two raters; errors by Fleiss, Cohen and Everitt (1969)."""
    codes = code_ratings(ratings)
    (first, second), (n, labels) = codes.T, (len(codes), int(codes.max()) + 1)
    if labels == 1:
        return _ONE_RATING
    p, q = (np.bincount(column, minlength=labels) / n for column in (first, second))
    agreed = (first == second).astype(float)
    chance = float(p @ q)
    kappa = 1 - float(1 - agreed.mean()) / (1 - chance)
    influence = agreed - agreed.mean() - (1 - kappa) * (q[first] + p[second] - 2 * chance)
    variance = max(0.0, chance + chance**2 - float((p * q) @ (p + q))) / n
    return PointEstimate(
        value=kappa,
        influence=influence / (1 - chance) / n,
        textbook=sqrt(variance) / (1 - chance),
        source="chance_z",
        disagreement=1 - chance,
    )


def _measure_weighted(ratings: Floats) -> PointEstimate | str:
    """Return Cohen's weighted kappa (1968) of two raters' numbers, with quadratic weights.

    It is Lin's concordance (1989) as well, and so needs no scale of labels.
    """
    codes, n = code_ratings(ratings), len(ratings)
    if (labels := int(codes.max()) + 1) == 1:
        return _ONE_RATING
    numbers = ratings / np.abs(ratings).max()  # no square overflows
    first, second = (numbers - numbers.mean()).T
    apart = (first - second) ** 2
    crossed = (first - second.mean()) ** 2 + (second - first.mean()) ** 2
    chance = float(first.var() + second.var() + (first.mean() - second.mean()) ** 2)
    kappa = 1 - float(apart.mean()) / chance
    added = apart - apart.mean() - (1 - kappa) * (crossed - crossed.mean())
    p, q = (np.bincount(column, minlength=labels) / n for column in codes.T)
    return PointEstimate(
        value=kappa,
        influence=-added / chance / n,
        textbook=1 / sqrt(n),
        source="chance_z",
        disagreement=1 - float(p @ q),  # of full agreement it tells how little else there may be
    )


def _measure_mean_cohen(ratings: Floats) -> PointEstimate | str:
    """Return the mean of Cohen's kappa over the pairs of raters (Light 1971)."""
    pairs = [ratings[:, columns] for columns in combinations(range(ratings.shape[1]), 2)]
    points, influence = [], np.zeros(len(ratings))
    for pair in pairs:
        both = count_ratings(pair) > 1
        point = _measure_cohen(pair[both]) if both.any() else _ONE_RATING
        if isinstance(point, str):
            return "not every pair of raters has a kappa"
        influence[both] += point.influence / len(pairs)
        points.append(point)
    return PointEstimate(
        value=float(np.mean([point.value for point in points])),
        influence=influence,
        textbook=float(np.linalg.norm([point.textbook or 0.0 for point in points])) / len(pairs),
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


def _measure_alpha(ratings: Floats, level: Level) -> PointEstimate | str:
    units, _ = there = np.nonzero(~np.isnan(ratings))
    codes, sizes = code_ratings(ratings[there]), count_ratings(ratings)
    share, total = np.bincount(codes) / len(codes), len(codes)
    if len(share) == 1:
        return _ONE_RATING
    if level == "nominal":
        found = _measure_labels(ratings, units, codes)
    else:
        ordinal = level == "ordinal"
        numbers = midranks(codes) if ordinal else standardize(ratings[there])
        found = _measure_numbers(numbers - numbers.mean(), units, codes if ordinal else None)
    ratio = (total - 1) * float(found.within.sum()) / found.among
    added = (total - 1) * found.added_within - ratio * found.added_among
    influence = -(ratio * sizes / total + added / found.among)
    error = _estimate_error_by_chance(share) if level == "nominal" else 1.0
    return PointEstimate(
        value=1 - ratio,
        influence=influence - influence.mean(),
        textbook=error * sqrt(float((2 * sizes / (sizes - 1)).sum())) / total,
        source="chance_z",
        disagreement=found.among / (total * (total - 1)) if level == "nominal" else None,
    )


def _measure_labels(ratings: Floats, units: Whole, codes: Whole) -> _Disagreements:
    """Return the disagreements of labels: two different ones are 1 apart."""
    sizes, counts, total = np.bincount(units), np.bincount(codes), len(codes)
    within = (sizes**2 - _count_equal_pairs(ratings)) / (sizes - 1)
    added = _sum_by_unit(units, 2 * (total - counts[codes]).astype(np.float64))
    return _Disagreements(within, within, float(total**2 - counts @ counts), added)


def _measure_numbers(numbers: Floats, units: Whole, codes: Whole | None) -> _Disagreements:
    """Return the squared differences of numbers of mean 0; with codes, those of ranks."""
    sizes, total = np.bincount(units), len(numbers)
    firsts = np.repeat(numbers[np.cumsum(sizes) - sizes], sizes)  # exactly 0 apart where all agree
    apart, apart_squared = (
        _sum_by_unit(units, numbers - firsts),
        _sum_by_unit(units, (numbers - firsts) ** 2),
    )
    within = 2 * (sizes * apart_squared - apart**2) / (sizes - 1)
    squares = _sum_by_unit(units, numbers**2)
    added_within, added_among = within, 2 * (sizes * squares.sum() + total * squares)
    if codes is not None:  # a rating more also lifts the ranks above it
        from_mean = numbers - (_sum_by_unit(units, numbers) / sizes)[units]
        steps = 4 * from_mean * (sizes / (sizes - 1))[units]
        added_within = within + _sum_by_unit(units, sum_lifted(codes, steps))
        added_among = added_among + _sum_by_unit(units, sum_lifted(codes, 4 * total * numbers))
    return _Disagreements(within, added_within, 2 * total * float(squares.sum()), added_among)


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
