"""How two raters' numbers go together: Pearson, Spearman, Kendall's tau-b.

>>> from calipers.statistics.influence import Sampling
>>> ratings = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
>>> round(kendall(ratings, Sampling(clusters=np.arange(4))).value, 4)
0.3333
"""

from __future__ import annotations

from functools import partial
from math import copysign, sqrt

import numpy as np

from calipers.statistics.arrays import Floats, Whole
from calipers.statistics.influence import (
    PointEstimate,
    code_ratings,
    estimate,
    midranks,
    standardize,
    sum_lifted,
)

_ROUNDING = 1e-12  # of a correlation that is 1
_NO_VARIANCE = "a rater gives all units the same rating"


def _measure_pearson(ratings: Floats) -> PointEstimate | str:
    """Return Pearson's correlation of two raters; interval by Fisher (1921)."""
    n = len(ratings)
    if (ratings.min(axis=0) == ratings.max(axis=0)).any():
        return _NO_VARIANCE
    first, second = map(standardize, ratings.T)
    r = _clip_correlation(float(first @ second) / n)
    return PointEstimate(
        value=r,
        influence=(first * second - r / 2 * (first**2 + second**2)) / n,
        textbook=1 / sqrt(n - 3) if n > 3 else None,  # noqa: PLR2004
        source="fisher_z",
    )


def _measure_spearman(ratings: Floats) -> PointEstimate | str:
    """Return Spearman's rank correlation of two raters; interval by Bonett and Wright (2000)."""
    codes = [code_ratings(column) for column in ratings.T]
    ranks = [midranks(column) for column in codes]
    point = _measure_pearson(np.column_stack(ranks))
    if isinstance(point, str):
        return point
    n, r, influence = len(ratings), point.value, point.influence
    first, second = map(standardize, ranks)
    lifts = sum_lifted(codes[0], (second - r * first) / ranks[0].std() / n)
    influence = influence + lifts + sum_lifted(codes[1], (first - r * second) / ranks[1].std() / n)
    return PointEstimate(
        value=r,
        influence=influence - influence.mean(),
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


def _clip_correlation(correlation: float) -> float:
    """Return a correlation with rounding errors next to ±1 removed."""
    return correlation if abs(correlation) < 1 - _ROUNDING else copysign(1.0, correlation)


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
