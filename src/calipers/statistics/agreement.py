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
from numpy.typing import NDArray

from calipers.statistics.influence import (
    Estimate,
    Floats,
    PointEstimate,
    Sampling,
    Whole,
    coded,
    estimate,
    lacking,
    lifted,
    midranks,
    rated,
    spread,
    standardised,
)
from calipers.statistics.intervals import wilson

Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

_ONE_RATING = "all ratings are the same: nothing tells agreement from chance"


def sensitivity(table: Floats, sampling: Sampling) -> Estimate:
    """Return the share of what people (the second column) pass that the judge passes too."""
    found = table[:, 1] > 1 / 2
    return _agreed(table[found, 0] > 1 / 2, found, sampling, "people passed none of the records")


def specificity(table: Floats, sampling: Sampling) -> Estimate:
    """Return the share of what people (the second column) fail that the judge fails too."""
    found = table[:, 1] <= 1 / 2
    return _agreed(table[found, 0] <= 1 / 2, found, sampling, "people failed none of the records")


def _agreed(
    agreed: NDArray[np.bool_], of: NDArray[np.bool_], sampling: Sampling, none: str
) -> Estimate:
    """The share with Wilson's interval, by tasks."""
    n = len(agreed)
    if not n:
        return Estimate(value=None, n=0, reason=none)
    share = float(agreed.mean())
    squares, clusters = spread((agreed - share) / n, sampling.clusters[of])
    around = wilson(share, n, squares, clusters, sampling.confidence)
    interval = None if around.low is None else "wilson"
    return Estimate(
        value=share,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=interval,
        n=n,
    )


def percent_agreement(ratings: Floats, sampling: Sampling) -> Estimate:
    """The share of equal ratings among a unit's pairs of ratings, averaged over the units."""
    used = rated(ratings) > 1
    n = int(used.sum())
    if not n:
        return Estimate(value=None, n=0, reason=lacking(n, ratings.shape[1]))
    sizes = rated(ratings[used])
    pairs = sizes * (sizes - 1)
    agreed = (_same(ratings[used]) - sizes) / pairs
    share = float(agreed.mean())
    squares, clusters = spread((agreed - share) / n, sampling.clusters[used])
    around = wilson(share, int(pairs.sum()) // 2, squares, clusters, sampling.confidence)
    return Estimate(
        value=share,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=None if around.low is None else "wilson",
        n=n,
    )


def cohen_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """Cohen's kappa (1960) of two raters; both errors by Fleiss, Cohen and Everitt (1969)."""
    return estimate(ratings, sampling, _cohen, every_rater=True)


def weighted_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """Cohen's kappa (1968) of two raters' numbers, a disagreement weighing its square.

    It is Lin's concordance (1989) as well, and so needs no scale of labels.
    """
    return estimate(ratings, sampling, _weighted, every_rater=True)


def mean_cohen_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """The mean of Cohen's kappa over the pairs of raters (Light 1971)."""
    return estimate(ratings, sampling, _mean_cohen)


def fleiss_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """Fleiss' kappa (1971) over the units that every rater rated."""
    return estimate(ratings, sampling, _fleiss, every_rater=True)


def krippendorff_alpha(ratings: Floats, sampling: Sampling, *, level: Level) -> Estimate:
    """Krippendorff's alpha (Computing Krippendorff's Alpha-Reliability, 2011); gaps are fine."""
    return estimate(ratings, sampling, partial(_alpha, level=level))


def _cohen(ratings: Floats) -> PointEstimate | str:
    codes = coded(ratings)
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


def _weighted(ratings: Floats) -> PointEstimate | str:
    codes, n = coded(ratings), len(ratings)
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


def _mean_cohen(ratings: Floats) -> PointEstimate | str:
    pairs = [ratings[:, columns] for columns in combinations(range(ratings.shape[1]), 2)]
    points, influence = [], np.zeros(len(ratings))
    for pair in pairs:
        both = rated(pair) > 1
        point = _cohen(pair[both]) if both.any() else _ONE_RATING
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


def _fleiss(ratings: Floats) -> PointEstimate | str:
    codes = coded(ratings)
    n, raters = codes.shape
    share = np.bincount(codes.ravel()) / codes.size
    if len(share) == 1:
        return _ONE_RATING
    agreed = (_same(ratings) - raters) / (raters * (raters - 1))
    chance = float(share @ share)
    kappa = 1 - float(1 - agreed.mean()) / (1 - chance)
    by_chance = share[codes].mean(axis=1)
    influence = agreed - agreed.mean() - (1 - kappa) * 2 * (by_chance - chance)
    return PointEstimate(
        value=kappa,
        influence=influence / (1 - chance) / n,
        textbook=_error_by_chance(share) * sqrt(2 / (n * raters * (raters - 1))),
        source="chance_z",
        disagreement=1 - chance,
    )


def _error_by_chance(share: Floats) -> float:
    """The standard error of the kappa of one unit that two raters label independently."""
    disagreement = float(1 - share @ share)
    variance = disagreement + disagreement**2 - 2 * float(share @ (1 - share) ** 2)
    return sqrt(max(0.0, variance)) / disagreement


class _Disagreements(NamedTuple):
    """Within units and among all ratings, and what one unit more of each kind would add."""

    within: Floats
    added_within: Floats
    among: float
    added_among: Floats


def _alpha(ratings: Floats, level: Level) -> PointEstimate | str:
    units, _ = there = np.nonzero(~np.isnan(ratings))
    codes, sizes = coded(ratings[there]), rated(ratings)
    share, total = np.bincount(codes) / len(codes), len(codes)
    if len(share) == 1:
        return _ONE_RATING
    if level == "nominal":
        found = _of_labels(ratings, units, codes)
    else:
        ordinal = level == "ordinal"
        numbers = midranks(codes) if ordinal else standardised(ratings[there])
        found = _of_numbers(numbers - numbers.mean(), units, codes if ordinal else None)
    ratio = (total - 1) * float(found.within.sum()) / found.among
    added = (total - 1) * found.added_within - ratio * found.added_among
    influence = -(ratio * sizes / total + added / found.among)
    error = _error_by_chance(share) if level == "nominal" else 1.0
    return PointEstimate(
        value=1 - ratio,
        influence=influence - influence.mean(),
        textbook=error * sqrt(float((2 * sizes / (sizes - 1)).sum())) / total,
        source="chance_z",
        disagreement=found.among / (total * (total - 1)) if level == "nominal" else None,
    )


def _of_labels(ratings: Floats, units: Whole, codes: Whole) -> _Disagreements:
    """Two different labels are 1 apart."""
    sizes, counts, total = np.bincount(units), np.bincount(codes), len(codes)
    within = (sizes**2 - _same(ratings)) / (sizes - 1)
    added = _sums(units, 2 * (total - counts[codes]).astype(np.float64))
    return _Disagreements(within, within, float(total**2 - counts @ counts), added)


def _of_numbers(numbers: Floats, units: Whole, codes: Whole | None) -> _Disagreements:
    """Two numbers (of mean 0) are their squared difference apart; with codes, they are ranks."""
    sizes, total = np.bincount(units), len(numbers)
    firsts = np.repeat(numbers[np.cumsum(sizes) - sizes], sizes)  # exactly 0 apart where all agree
    apart, apart_squared = _sums(units, numbers - firsts), _sums(units, (numbers - firsts) ** 2)
    within = 2 * (sizes * apart_squared - apart**2) / (sizes - 1)
    squares = _sums(units, numbers**2)
    added_within, added_among = within, 2 * (sizes * squares.sum() + total * squares)
    if codes is not None:  # a rating more also lifts the ranks above it
        from_mean = numbers - (_sums(units, numbers) / sizes)[units]
        steps = 4 * from_mean * (sizes / (sizes - 1))[units]
        added_within = within + _sums(units, lifted(codes, steps))
        added_among = added_among + _sums(units, lifted(codes, 4 * total * numbers))
    return _Disagreements(within, added_within, 2 * total * float(squares.sum()), added_among)


def _sums(units: Whole, values: Floats) -> Floats:
    return np.asarray(np.bincount(units, weights=values))


def _same(ratings: Floats) -> Floats:
    """Of each unit, the ordered pairs of equal ratings, a rating with itself included."""
    units, _ = there = np.nonzero(~np.isnan(ratings))
    codes = coded(ratings[there])
    labels = codes.max() + 1
    cells, counts = np.unique(units * labels + codes, return_counts=True)
    return _sums(cells // labels, np.square(counts, dtype=np.float64))
