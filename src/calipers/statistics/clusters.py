"""Arrays of numbers, and the clusters that their rows come in: the variance of every value.

Rows of one cluster depend on each other. A cluster's share is its part of all rows. The variance of
a value is CR2, the sum of the clusters' squared influences, each over 1 − share (Bell & McCaffrey
2002, Survey Methodology 28, 169): what a large cluster moves the value itself is missing from its
square. Its degrees of freedom are those of Bell and McCaffrey for errors with the intra-cluster
correlation that the data show (Imbens & Kolesár 2016, Rev. Econ. Stat. 98, 701). All of this takes
sums over clusters, `SHARE_SUMS`, and so adds up over parts of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, nan, sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

from calipers.statistics.elementwise import (
    apply,
    as_float,
    at_least,
    at_most,
    choose,
    divide,
    is_anywhere,
    is_one,
    power,
)
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Whole: TypeAlias = "NDArray[np.int64]"
Labels: TypeAlias = "NDArray[Any]"


def sum_clusters(values: Floats, clusters: Labels | None) -> Floats:
    """Return the sum in each cluster; without clusters the values themselves."""
    if clusters is None:
        return values
    _, members = np.unique(clusters, return_inverse=True)
    return np.bincount(members, weights=values).astype(np.float64)


def measure_skewness(influence: Floats, clusters: Labels | None) -> float:
    """Return the skewness of a value's error: Σ T³ / (Σ T²)^1.5 over the clusters' influences."""
    totals = sum_clusters(influence, clusters)
    largest = float(np.abs(totals).max(initial=0.0))
    if not largest:
        return 0.0
    scaled = totals / largest
    square = scaled * scaled
    total = float(square.sum())
    return float(square @ scaled) / (total * sqrt(total))


def as_finite(values: ArrayLike) -> Floats:
    """Return the values as an array of floats; raise ValueError if one is missing or infinite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("values must be finite numbers: leave missing ones out first")
    return array


_LEAST_LEFT = 1e-9  # of the variance, where one cluster is nearly all there is
_FEWEST = 2  # clusters: one alone says nothing of how far the next may lie
_EQUAL = 1e-12  # sizes that differ by less, relatively, are equal
_NOTHING = 1e-300
_NO_INFLUENCE = 1e-14  # per row, squared: what rounding leaves of 0

SHARE_SUMS = ((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2), (5, 2))
"""Powers i, j of Σ share^i / (1 − share)^j over the clusters, which the degrees of freedom take."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """So many clusters, and what their unequal sizes leave of them for one value.

    Of many values, each number is a column.

    >>> Clusters.of(40).degrees
    39.0
    >>> labels = np.repeat(np.arange(40), [20, 20, 20, 20, 20] + [1] * 35)
    >>> _, few = Clusters.of_influences(np.sin(labels), labels)
    >>> few.count, round(few.worth, 1), round(few.degrees, 1)
    (40, 9.0, 4.3)
    """

    count: Any  # a whole number; the others are floats
    worth: Any  # one over Σ share²: as many equal ones would vary as much (Kish 1965)
    degrees: Any  # of freedom
    inflation: Any  # of the summed squares: CR2 over the plain sum
    inside: Any = 0.0  # of the rows' squares, the part that lies within clusters of unequal size

    @classmethod
    def of(cls, clusters: Any) -> Clusters:
        """Take a bare number, or a column of them, as that many equal clusters."""
        if isinstance(clusters, Clusters):
            return clusters
        left = clusters - 1
        inflation = choose(left > 0, divide(clusters, left), inf)
        return cls(clusters, as_float(clusters), as_float(left), inflation)

    @classmethod
    def choose(cls, condition: Any, yes: Clusters, no: Clusters) -> Clusters:
        """Return the first clusters where the condition holds, else the others."""
        names = ("count", "worth", "degrees", "inflation", "inside")
        return cls(*(choose(condition, getattr(yes, name), getattr(no, name)) for name in names))

    @classmethod
    @lru_cache(maxsize=4096)  # the values of a group have the same weights, and often all groups
    def of_powers(cls, count: int, total: float, powers: tuple[float, float, float]) -> Clusters:
        """Return clusters of unequal weights by Σ size, and Σ size², Σ size³ and Σ size⁴.

        As if all of a cluster were alike: then the sum of the squared influences is on average
        1 − 2 Σ share³ / Σ share² + Σ share² of their variance, (C − 1) / C where all are equal.
        """
        return cls.of_power_columns(count, total, powers)

    @classmethod
    def of_power_columns(cls, count: Any, total: Any, powers: tuple[Any, Any, Any]) -> Clusters:
        """Return the same of one value, or of columns of them."""
        second, third, fourth = (
            _take_share(size, total, number) for number, size in enumerate(powers, start=2)
        )
        left = at_least(_LEAST_LEFT, 1 - divide(2 * third, second) + second)
        degrees = at_least(1.0, divide(power(second, 2), fourth) - 1)
        found = cls(count, divide(1, second), degrees, 1 / left)
        unknown = (count < _FEWEST) | (total == 0) | (powers[0] == 0)
        return cls.choose(unknown, cls.of(count), found) if is_anywhere(unknown) else found

    @classmethod
    def of_sums(
        cls,
        count: Any,
        *,
        rows: Any,
        second: Any,
        squares: Any,
        corrected: Any,
        inside: Any,
        all_rows: Any,
        shares: Mapping[tuple[int, int], Any],
    ) -> Clusters:
        """Return the clusters of a value, or of columns of them, by sums over them.

        Args:
            count: of clusters.
            rows: how many there are in all.
            second: Σ share².
            squares: Σ influence² of the clusters.
            corrected: the same, each over 1 − share.
            inside: the squares of the rows' influences around the mean of their cluster.
            all_rows: the squares of the rows' influences.
            shares: the sums over shares named in `SHARE_SUMS`.
        """
        equal = (count < _FEWEST) | (abs(second * count - 1) < _EQUAL)
        if is_one(count) and equal:
            return cls.of(count)
        found = correlate(
            between=all_rows - inside, inside=inside, rows=rows, clusters=count, second=second
        )
        alike = choose(all_rows > _NO_INFLUENCE * rows, found, 1.0)
        degrees = count_degrees(shares, second=second, rows=rows, alike=alike)
        inflation = choose(
            squares > 0, divide(corrected, squares), 1 / at_least(_LEAST_LEFT, 1 - second)
        )
        within = at_most(1.0, at_least(0.0, divide(inside, all_rows)))
        unequal = cls(
            count, divide(1, second), as_float(degrees), inflation, choose(alike < 1, within, 0.0)
        )
        return cls.choose(equal, cls.of(count), unequal) if is_anywhere(equal) else unequal

    @classmethod
    def of_influences(
        cls, influence: Floats, labels: Labels | None, weights: Floats | None = None
    ) -> tuple[float, Clusters]:
        """Return Σ influence² of the clusters, plain, and the clusters of that value.

        With weights, a row is as large as its weight, on average 1; influences have theirs in them.
        """
        if labels is None:
            return float(influence @ influence), cls.of(influence.size)
        _, members = np.unique(labels, return_inverse=True)
        each = np.ones(influence.size) if weights is None else weights / weights.mean()
        totals = np.bincount(members.ravel(), weights=influence).astype(np.float64)
        sizes = np.bincount(members.ravel(), weights=each)
        all_rows = float((influence * influence / each).sum())
        return float(totals @ totals), cls.of_totals(totals, sizes, all_rows)

    @classmethod
    def of_totals(cls, totals: Floats, sizes: ArrayLike, all_rows: float) -> Clusters:
        """Return the clusters of a value by their summed influences and their sizes.

        `all_rows` is Σ influence² of the rows.
        """
        rows = np.asarray(sizes, dtype=np.float64)
        count, n = rows.size, float(rows.sum())
        if count < _FEWEST or rows.min() == rows.max():
            return cls.of(count)
        shares = rows / n
        return cls.of_sums(
            count,
            rows=n,
            second=float(shares @ shares),
            squares=float(totals @ totals),
            corrected=float((totals * totals / np.maximum(_LEAST_LEFT, 1 - shares)).sum()),
            inside=all_rows - float((totals * totals / rows).sum()),
            all_rows=all_rows,
            shares={name: float(found) for name, found in sum_shares(shares).items()},
        )

    @property
    def too_few(self) -> Any:
        """Whether nothing can be said of the next."""
        return self.count < _FEWEST

    @property
    def telling(self) -> Any:
        """How much of what rows tell of their dependence is left, where a few clusters hold most.

        Rows that differ within a cluster tell of it whatever the sizes.
        """
        return at_least(self.inside, divide(self.worth, self.count))


_EXACT = 2**62  # below which whole numbers of 64 bits are exact


def _take_share(size: Any, total: Any, exponent: int) -> Any:
    """Return Σ size^k over (Σ size)^k, with the last digit that whole numbers give."""
    if not is_one(total):
        if total.dtype.kind == "f":
            return divide(size, power(total, exponent))
        if float(total.max(initial=0)) ** exponent < _EXACT:
            return divide(size, total**exponent)
        return apply(_take_share, size, total, exponent)
    return size / total**exponent if total else nan


def sum_shares(shares: Floats) -> dict[tuple[int, int], float]:
    """Return the sums over shares, of clusters along the last axis, that `count_degrees` takes."""
    left = 1 / np.maximum(_LEAST_LEFT, 1 - shares)
    return {(i, j): (shares**i * left**j).sum(axis=-1) for i, j in SHARE_SUMS}


def correlate(*, between: Any, inside: Any, rows: Any, clusters: Any, second: Any) -> Any:
    """Return the intra-cluster correlation from analysis of variance, in [0, 1]; arrays too.

    (MSB − MSW) / (MSB + (n₀ − 1) MSW), n₀ being the rows of a cluster (Donner 1986, Int. Stat. Rev.
    54, 67).
    """
    of_clusters = between / _keep_above(1.0, clusters - 1)
    of_rows = _keep_above(0.0, inside) / _keep_above(1.0, rows - clusters)
    size = (rows - rows * second) / _keep_above(1.0, clusters - 1)
    whole = of_clusters + (size - 1) * of_rows  # 0 where all values are equal
    return _keep_above(0.0, 1 - size * of_rows / _keep_above(_NOTHING, whole))


def count_degrees(
    sums: Mapping[tuple[int, int], Any], *, second: Any, rows: Any, alike: Any
) -> Any:
    """Return Bell and McCaffrey's degrees of freedom of the CR2 variance of a mean; arrays too.

    With shares s, rows of variance 1 and correlation ρ within clusters, the clusters' influences
    have the covariance (1 − ρ)/n (S − ss') + ρ (S − ss')². Weighed by 1 / (1 − s) it is B, and the
    degrees are tr(B)² / tr(B²). B is a diagonal and a matrix of rank two, so that sums over s are
    all it takes.

    Args:
        sums: over the clusters, those named in `SHARE_SUMS`.
        second: Σ s².
        rows: n.
        alike: ρ.
    """
    alone = (1 - alike) / rows
    vv, vz, zz = sums[2, 1], sums[3, 1], sums[4, 1]
    own = alike * second - alone
    trace = alone * sums[1, 1] + alike * vv + own * vv - 2 * alike * vz
    diagonal = (
        alone * alone * sums[2, 2] + 2 * alone * alike * sums[3, 2] + alike * alike * sums[4, 2]
    )
    crossed = own * (alone * sums[3, 2] + alike * sums[4, 2])
    crossed = crossed - 2 * alike * (alone * sums[4, 2] + alike * sums[5, 2])
    outer = own * own * vv * vv - 4 * own * alike * vv * vz
    outer = outer + 2 * alike * alike * (vv * zz + vz * vz)
    square = diagonal + 2 * crossed + outer
    return _keep_above(1.0, trace * trace / _keep_above(_NOTHING, square))


def _keep_above(least: float, value: Any) -> Any:
    """Return the value, or the least where it is below; of a number without loading NumPy."""
    return max(least, value) if isinstance(value, float | int) else np.maximum(least, value)
