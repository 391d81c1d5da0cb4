"""How far raters agree: pure functions of a table with a row per unit and a column per rater.

A unit is one rated thing; NaN stands where a rater gave no rating; labels come as numbers.

>>> ratings = np.array([[1.0, 1.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]])
>>> cohen_kappa(ratings, Sampling(clusters=np.arange(4))).value
0.5

Intervals stand on Fisher's z scale, so no bound leaves [−1, 1], and are the wider of two: the delta
method's, from the influence of every unit, cluster by cluster, with Student's t; and the
textbook's, which knows neither clusters nor ties but holds where the delta method sees too little:
few units, rare labels, no agreement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import atanh, sqrt, tanh
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calipers.stats.intervals import normal_quantile, standard_error, t_quantile, wilson

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

_ROUNDING = 1e-12  # of a correlation that is 1
_NO_VARIANCE = "a rater gives the same rating throughout"
_ONE_RATING = "all ratings are the same: chance alone would agree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A measure of agreement with its interval, and the units behind it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    n: int
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Which units depend on each other (the same cluster), and how sure intervals shall be."""

    clusters: Counts
    confidence: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A value, what each unit adds to it, and its textbook standard error on the z scale."""

    value: float
    influence: Floats
    textbook: float | None  # none: too few units for its formula
    source: str
    expected: float | None = None  # disagreement by chance, of labels


_Formula: TypeAlias = Callable[[Floats], "_Point | str"]


def percent_agreement(ratings: Floats, sampling: Sampling) -> Estimate:
    """The share of pairs of ratings of a unit that are the same, averaged over the units."""
    used = _rated(ratings) > 1
    n = int(used.sum())
    if not n:
        return Estimate(value=None, n=0, reason=_nobody_shares(ratings))
    rated = _rated(ratings[used])
    agreed = (_same(ratings[used]) - rated) / (rated * (rated - 1))
    share = float(agreed.mean())
    spread, clusters = _spread((agreed - share) / n, sampling.clusters[used])
    around = wilson(share, n, spread, clusters, sampling.confidence)
    return Estimate(
        value=share,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=None if around.low is None else "wilson",
        n=n,
    )


def cohen_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """Cohen's kappa (1960) of two raters; variances of Fleiss, Cohen and Everitt (1969)."""
    return _estimate(ratings, sampling, _cohen, of_all=True)


def mean_cohen_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """The mean of Cohen's kappa over all pairs of raters (Light 1971)."""
    return _estimate(ratings, sampling, _mean_cohen)


def fleiss_kappa(ratings: Floats, sampling: Sampling) -> Estimate:
    """Fleiss' kappa (1971), over the units that all raters rated; variance as Gwet (2021)."""
    return _estimate(ratings, sampling, _fleiss, of_all=True)


def krippendorff_alpha(ratings: Floats, sampling: Sampling, *, level: Level) -> Estimate:
    """Krippendorff's alpha (Computing Krippendorff's Alpha-Reliability, 2011), gaps allowed."""
    formula = _alpha_of_labels if level == "nominal" else _alpha_of_numbers
    return _estimate(_ranked(ratings) if level == "ordinal" else ratings, sampling, formula)


def pearson(ratings: Floats, sampling: Sampling) -> Estimate:
    """Pearson's correlation of two raters; textbook: Fisher (1921)."""
    return _estimate(ratings, sampling, _pearson, of_all=True)


def spearman(ratings: Floats, sampling: Sampling) -> Estimate:
    """Spearman's rank correlation of two raters; textbook: Bonett and Wright (2000)."""
    return _estimate(ratings, sampling, _spearman, of_all=True)


def kendall(ratings: Floats, sampling: Sampling) -> Estimate:
    """Kendall's tau-b of two raters; textbook: Bonett and Wright (2000), who had no ties."""
    return _estimate(ratings, sampling, _kendall, of_all=True)
