"""Estimates with their intervals, from the influence of each unit on a value.

A unit is one rated thing: a row of `ratings`, which have a column per rater and NaN where one gave
no rating. Intervals are computed on Fisher's z scale, so that no bound leaves [−1, 1]. Each is the
wider of two: the delta method's, from influences summed by cluster, with Student's t; and the
textbook's, which ignores clusters and ties but holds where the influences show too little: few
units, rare labels, or raters who agree as often as chance would have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
class Strata:
    """What units were drawn from: so many of each stratum of so many, by chance within it.

    A unit stands for as many of its stratum as there are per drawn one (Hájek 1971).
    """

    codes: Whole  # of the units, a place in the other two
    drawn: Floats
    sizes: Floats

    @classmethod
    def of(cls, names: Sequence[str], sizes: Mapping[str, int]) -> Strata:
        """Take units by the names of their strata; a stratum has no fewer than were drawn.

        >>> Strata.of(["passed", "passed", "failed"], {"passed": 80, "failed": 10}).weights
        array([1.  , 1.  , 0.25])
        """
        counts = Counter(names)
        places = {name: at for at, name in enumerate(counts)}
        return cls(
            codes=np.array([places[name] for name in names], dtype=np.int64),
            drawn=np.array(list(counts.values()), dtype=np.float64),
            sizes=np.array([float(max(sizes[name], n)) for name, n in counts.items()]),
        )

    def keep(self, units: NDArray[Any]) -> Strata:
        """Return the same of some units alone, of which so many were drawn by luck."""
        return replace(self, codes=self.codes[units])

    @property
    def weights(self) -> Floats:
        """How much each unit counts, 1 where it stands for most."""
        stands_for = self.sizes / self.drawn
        return np.asarray((stands_for / stands_for.max())[self.codes])

    def compare_spread(self, influence: Floats) -> float:
        """Return the variance of a sum of influences over that of units drawn from all at once.

        The means of strata vary only as far as their sizes do among other records of this kind.
        """
        of_units = float(influence @ influence)
        if not of_units:
            return 1.0
        strata = len(self.drawn)
        squares = np.bincount(self.codes, influence**2, minlength=strata)
        of_means = np.bincount(self.codes, influence, minlength=strata) ** 2 / self.drawn
        lost = self.drawn / np.maximum(1, self.drawn - 1)
        varied = (squares - of_means) * lost + of_means * self.drawn / self.sizes
        return float(np.where(self.drawn > 1, varied, squares).sum()) / of_units


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Which units depend on each other (those of a cluster), and how sure an interval shall be.

    And the strata that they were drawn from, where chances were not equal.
    """

    clusters: Whole
    confidence: float = 0.95
    strata: Strata | None = None

    def keep(self, units: NDArray[np.bool_]) -> Sampling:
        """Return the same of some units alone."""
        strata = None if self.strata is None else self.strata.keep(units)
        return replace(self, clusters=self.clusters[units], strata=strata)

    @property
    def weights(self) -> Floats | None:
        """How much each unit counts, at most 1; None where all count the same."""
        return None if self.strata is None else self.strata.weights

    @property
    def shares(self) -> Floats:
        """How much each unit counts, of all."""
        weights = np.ones(len(self.clusters)) if self.weights is None else self.weights
        return np.asarray(weights / weights.sum())

    @property
    def least_units(self) -> float:
        """The sum of the weights: the units that these are worth where each stands for most.

        A kind of unit that was not seen at all may be hidden there.
        """
        return float(len(self.clusters) if self.weights is None else self.weights.sum())

    @property
    def effective_units(self) -> float | None:
        """The units drawn by chance that would vary as little (Kish 1965); None without strata."""
        w = self.weights
        return None if w is None else float(w.sum() ** 2 / (w @ w))


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
    formula: Callable[..., PointEstimate | str],
    every_rater: bool = False,
) -> Estimate:
    """Return the formula's estimate on the units it can use; a text in its place is the reason.

    Where units have weights the formula is given them after the ratings.
    """
    fewest = ratings.shape[1] if every_rater else 2
    used = count_ratings(ratings) >= fewest
    n = int(used.sum())
    if n < 2:  # noqa: PLR2004
        return Estimate(value=None, n=n, reason=explain_too_few(n, ratings.shape[1], fewest))
    sampling = sampling.keep(used)
    point = formula(ratings[used], *(() if sampling.weights is None else (sampling.weights,)))
    if isinstance(point, str):
        return Estimate(value=None, n=n, reason=point)
    squares, clusters = spread(point.influence, sampling)
    if abs(point.value) == 1:
        return _estimate_perfect(point, n, clusters, sampling)
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
    share = float(np.average(values, weights=sampling.weights))
    squares, clusters = spread((values - share) * sampling.shares, sampling)
    around = wilson(
        share, rows or n, squares, clusters, sampling.confidence, most=sampling.least_units
    )
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
    point: PointEstimate, n: int, clusters: Clusters, sampling: Sampling
) -> Estimate:
    """Return the estimate at full agreement, by Wilson's bound of the share that differs."""
    agreed = wilson(1.0, n, 0.0, clusters, sampling.confidence, most=sampling.least_units).low
    if point.value < 0 or point.disagreement is None or agreed is None:
        return Estimate(value=point.value, n=n)
    low = max(-1.0, 1 - (1 - agreed) / point.disagreement)
    return Estimate(value=1.0, low=low, high=1.0, interval="wilson", n=n)


def spread(influence: Floats, sampling: Sampling) -> tuple[float, Clusters]:
    """Return the sum of the clusters' squared influences, and the clusters of that value."""
    if sampling.strata is None:
        return Clusters.of_influences(influence, sampling.clusters)
    squares, counted = Clusters.of_influences(influence, sampling.clusters, sampling.weights)
    return squares * sampling.strata.compare_spread(influence), counted


def count_ratings(ratings: Floats) -> Whole:
    """Return the number of ratings of each unit."""
    return np.asarray(np.count_nonzero(~np.isnan(ratings), axis=1), dtype=np.int64)


def code_ratings(ratings: Floats) -> Whole:
    """Return each rating as the rank of its value among the distinct ones, from 0."""
    return np.unique(ratings, return_inverse=True)[1].reshape(ratings.shape)


def midranks(codes: Whole, weights: Floats | None = None) -> Floats:
    """Return how many ratings lie below each, equal ones counted half; with weights, how much."""
    counts = np.bincount(codes, weights=weights)
    return np.asarray((np.cumsum(counts) - counts / 2)[codes])


def sum_lifted(codes: Whole, steps: Floats) -> Floats:
    """Return, for one more rating of each value, the sum of the steps of the ranks that it lifts.

    It lifts the ranks above by 1, those of its equals by ½.
    """
    sums = np.bincount(codes, weights=steps)
    return np.asarray((sums.sum() - np.cumsum(sums) + sums / 2)[codes])


def standardize(numbers: Floats, weights: Floats | None = None) -> Floats:
    """Return the numbers with mean 0 and deviation 1, scaled first so that no square overflows."""
    scaled = numbers / np.abs(numbers).max()
    apart = scaled - np.average(scaled, weights=weights)
    return np.asarray(apart / np.sqrt(np.average(apart**2, weights=weights)))
