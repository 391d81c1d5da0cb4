"""Estimates with their intervals, from the influence of each unit on a value.

A unit is one rated thing: a row of `ratings`, which have a column per rater and NaN where one gave
no rating. Intervals are computed on Fisher's z scale, so that no bound leaves [−1, 1]. Each is the
wider of two: the delta method's, from influences summed by cluster, with Student's t; and the
textbook's, which ignores clusters and ties but holds where the influences show too little: few
units, rare labels, or raters who agree as often as chance would have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import atanh, tanh
from typing import TYPE_CHECKING, Any

from calipers.statistics.clusters import Clusters, Floats, Whole
from calipers.statistics.intervals import normal_quantile, standard_error, t_quantile, wilson
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval, and how many units stand behind it."""

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
class Corrected(Estimate):
    """A judged mean without the judge's error; n counts the records that people rated as well."""

    assumes: str | None = None  # what has to hold for it
    overlap: int = 0  # of the rated records, those among the judged ones


_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Which units depend on each other (those of a cluster), and how sure an interval shall be."""

    clusters: Whole
    confidence: float = 0.95

    def keep(self, units: NDArray[np.bool_]) -> Sampling:
        """Return the same of some units alone."""
        return replace(self, clusters=self.clusters[units])


@dataclass(frozen=True, slots=True, kw_only=True)
class PointEstimate:
    """A value, the influence of each unit on it, and what the literature says of its error."""

    value: float
    influence: Floats  # the change of the value per unit more of this kind; sums to 0
    textbook: float | None  # standard error on the z scale; None below its fewest units
    source: str
    disagreement: float | None = None  # of labels: the share to expect by chance


def estimate(
    ratings: Floats,
    sampling: Sampling,
    *,
    formula: Callable[[Floats], PointEstimate | str],
    every_rater: bool = False,
) -> Estimate:
    """Return the formula's estimate on the units it can use; a text in its place is the reason."""
    fewest = ratings.shape[1] if every_rater else 2
    used = count_ratings(ratings) >= fewest
    n = int(used.sum())
    if n < 2:  # noqa: PLR2004
        return Estimate(value=None, n=n, reason=explain_too_few(n, ratings.shape[1], fewest))
    point = formula(ratings[used])
    if isinstance(point, str):
        return Estimate(value=None, n=n, reason=point)
    squares, clusters = spread(point.influence, sampling.clusters[used])
    if abs(point.value) == 1:
        return _estimate_perfect(point, n, clusters, sampling.confidence)
    delta = standard_error(squares, clusters)
    if delta is None or point.textbook is None:
        return Estimate(value=point.value, n=n)
    slope = 1 - point.value**2  # of the way back from the z scale
    errors = {"delta_z": delta / slope, point.source: point.textbook}
    reaches = {
        "delta_z": errors["delta_z"] * t_quantile(clusters, sampling.confidence),
        point.source: point.textbook * normal_quantile(sampling.confidence),
    }
    wider = max(reaches, key=reaches.__getitem__)
    if reaches[wider] < _ROUNDING:  # no unit could change the value: there is nothing to go by
        return Estimate(value=point.value, n=n)
    return Estimate(
        value=point.value,
        low=tanh(atanh(point.value) - reaches[wider]),
        high=tanh(atanh(point.value) + reaches[wider]),
        stderr=errors[wider] * slope,
        interval=wider,
        n=n,
    )


def estimate_share(values: NDArray[Any], sampling: Sampling, none: str, rows: int = 0) -> Estimate:
    """Return the mean of values in [0, 1], a unit each, with Wilson's interval of a share.

    The interval is that of so many rows, or of the units. `none` is the reason without any.
    """
    n = len(values)
    if not n:
        return Estimate(value=None, n=0, reason=none)
    share = float(values.mean())
    squares, clusters = spread((values - share) / n, sampling.clusters)
    around = wilson(share, rows or n, squares, clusters, sampling.confidence)
    return Estimate(
        value=share,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        interval=None if around.low is None else "wilson",
        n=n,
    )


def explain_too_few(n: int, raters: int, fewest: int = 2) -> str:
    """Return the reason why n units are too few."""
    found = "only one unit" if n else "no unit"
    if raters == 2:  # noqa: PLR2004
        return f"{found} is rated by both"
    return f"{found} is rated by all {raters}" if fewest == raters else f"{found} has two ratings"


def _estimate_perfect(
    point: PointEstimate, n: int, clusters: Clusters, confidence: float
) -> Estimate:
    """Return the estimate at full agreement, by Wilson's bound of the share that differs."""
    agreed = wilson(1.0, n, 0.0, clusters, confidence).low
    if point.value < 0 or point.disagreement is None or agreed is None:
        return Estimate(value=point.value, n=n)
    low = max(-1.0, 1 - (1 - agreed) / point.disagreement)
    return Estimate(value=1.0, low=low, high=1.0, interval="wilson", n=n)


def spread(influence: Floats, clusters: Whole) -> tuple[float, Clusters]:
    """Return the sum of the clusters' squared influences, and the clusters of that value."""
    return Clusters.of_influences(influence, clusters)


def count_ratings(ratings: Floats) -> Whole:
    """Return the number of ratings of each unit."""
    return np.asarray(np.count_nonzero(~np.isnan(ratings), axis=1), dtype=np.int64)


def code_ratings(ratings: Floats) -> Whole:
    """Return each rating as the rank of its value among the distinct ones, from 0."""
    return np.unique(ratings, return_inverse=True)[1].reshape(ratings.shape)


def midranks(codes: Whole) -> Floats:
    """Return how many ratings lie below each, equal ones counted half."""
    counts = np.bincount(codes)
    return np.asarray((np.cumsum(counts) - counts / 2)[codes])


def sum_lifted(codes: Whole, steps: Floats) -> Floats:
    """Return, for one more rating of each value, the sum of the steps of the ranks that it lifts.

    It lifts the ranks above by 1, those of its equals by ½.
    """
    sums = np.bincount(codes, weights=steps)
    return np.asarray((sums.sum() - np.cumsum(sums) + sums / 2)[codes])


def standardize(numbers: Floats) -> Floats:
    """Return the numbers with mean 0 and deviation 1, scaled first so that no square overflows."""
    scaled = numbers / np.abs(numbers).max()
    return np.asarray((scaled - scaled.mean()) / scaled.std())
