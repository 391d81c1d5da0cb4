"""Every pair of several systems on the same tasks: what `paired` says of one pair, as columns.

Pairs of right and wrong answers are told apart by how many tasks went up and how many down, and so
are tested once for each such table. Of other values a row of differences per pair is reduced for
many pairs at once.

>>> matrix = TaskMatrix.of([[1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [0, 0, 0, 0, 1]])
>>> scale = ValueScale(yes_or_no=True, reach=1.0, step=1.0, higher_is_better=True)
>>> found = compare_all(matrix, scale, confidence=0.95)
>>> found.difference.tolist(), found.p_value.round(3).tolist()  # 0 − 1, 0 − 2, 1 − 2
([0.4, 0.6, 0.2], [0.25, 0.125, 0.5])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import nan
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calipers.statistics.clusters import Clusters, Floats, Labels, Whole, sum_shares
from calipers.statistics.paired import (
    MCNEMAR,
    ROUNDING,
    Difference,
    PairedTasks,
    Tail,
    ValueScale,
    compare_tasks,
    student,
)
from calipers.statistics.paired_tests import (
    EXACT,
    Repeats,
    bound_pairs_over_tasks,
    permute_signs,
    share_difference,
)
from calipers.statistics.unpaired import Evidence, SampleMean, compare_means, compare_shares

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_CELLS = 1 << 18  # differences at a time: they stay in the processor's cache
_FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class TaskMatrix:
    """A row per system and a column per task: values, and how many runs each is the mean of."""

    values: Floats
    runs: Floats
    squares: Floats | None  # of the runs around their means; None where a task has one value
    clusters: Labels | None

    @classmethod
    def of(cls, values: ArrayLike, clusters: Labels | None = None) -> Self:
        """Take values of which each is a single run."""
        array = np.asarray(values, dtype=np.float64)
        return cls(values=array, runs=np.ones(array.shape), squares=None, clusters=clusters)

    def pair(self, one: int, other: int) -> PairedTasks:
        """Return the tasks of two systems; the difference is that of the first from the second."""
        squares = None if self.squares is None else self.squares[one] + self.squares[other]
        return PairedTasks(
            base=self.values[other],
            candidate=self.values[one],
            base_runs=self.runs[other],
            candidate_runs=self.runs[one],
            squares=squares,
        )

    def find_repeats(self, one: int, others: Whole) -> Repeats | None:
        """Return the runs behind one system's pairs with others, a row each."""
        if self.squares is None:
            return None
        base = self.runs[others]
        return Repeats(
            base=base,
            candidate=np.broadcast_to(self.runs[one], base.shape),
            squares=self.squares[one] + self.squares[others],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairColumns:
    """All pairs of systems in the order 0-1, 0-2, …, 1-2, …: an element each; NaN is a null."""

    difference: Floats  # of the first from the second
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats  # for all pairs
    test: NDArray[np.object_]
    reason: NDArray[np.object_]  # None where nothing is null

    @classmethod
    def of_systems(cls, systems: int) -> Self:
        """Return columns to be filled for so many systems."""
        pairs = systems * (systems - 1) // 2
        numbers = (np.full(pairs, nan) for _ in range(5))
        texts = (np.full(pairs, None, dtype=object) for _ in range(2))
        return cls(**dict(zip(cls.__slots__, (*numbers, *texts), strict=True)))

    @classmethod
    def of_each(cls, found: Sequence[Difference]) -> Self:
        """Take a comparison per pair."""

        def column(name: str) -> Floats:
            return np.array([getattr(each, name) for each in found], dtype=np.float64)

        return cls(
            difference=column("difference"),
            low=column("low"),
            high=column("high"),
            p_value=column("p_value"),
            p_adjusted=np.full(len(found), nan),
            test=np.array([each.test for each in found], dtype=object),
            reason=np.array([each.reason for each in found], dtype=object),
        )

    def fill(self, places: Any, **columns: Any) -> None:
        """Put values in the places of some pairs."""
        for name, values in columns.items():
            getattr(self, name)[places] = values


def find_places(systems: int, one: Any, other: Any) -> Any:
    """Return where the pair of two positions, the smaller one first, stands among all pairs.

    >>> [find_places(4, one, other) for one, other in ((0, 1), (0, 3), (1, 2), (2, 3))]
    [0, 2, 3, 5]
    """
    return one * (2 * systems - one - 1) // 2 + other - one - 1


def group_alike(first: Whole, second: Whole) -> Iterator[tuple[int, int, Whole]]:
    """Yield each combination of two whole numbers once, with the places where it is found."""
    width = int(second.max(initial=0)) + 1
    codes, at = np.unique(first * width + second, return_inverse=True)
    order = np.argsort(at, kind="stable")
    counts = np.bincount(at)
    ends = np.cumsum(counts)
    starts = ends - counts
    for code, start, end in zip(codes.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield *divmod(code, width), order[start:end]


def compare_all(matrix: TaskMatrix, scale: ValueScale, *, confidence: float) -> PairColumns:
    """Return the comparison of every pair over all tasks, each as `compare_tasks` has it."""
    systems, tasks = matrix.values.shape
    groups = Groups.of(matrix.clusters, tasks)
    if groups is not None and groups.may_flip(confidence):
        return PairColumns.of_each(
            [
                compare_tasks(
                    matrix.pair(one, other),
                    scale,
                    weight="task",
                    confidence=confidence,
                    seed=0,
                    resamples=1,  # all flips are tried
                    clusters=matrix.clusters,
                )
                for one, other in combinations(range(systems), 2)
            ]
        )
    found = PairColumns.of_systems(systems)
    exact = np.zeros(systems, dtype=bool)
    if scale.yes_or_no and groups is None:
        exact = np.asarray(np.isin(matrix.values, (0.0, 1.0)).all(axis=1))
    _compare_shares(found, matrix.values, np.flatnonzero(exact), confidence)
    at_once = max(1, _CELLS // tasks)
    for one in range(systems - 1):
        later = np.arange(one + 1, systems)
        others = later[~(exact[one] & exact[later])]
        for start in range(0, others.size, at_once):
            some = others[start : start + at_once]
            _compare_values(found, matrix, one, some, scale, groups, confidence)
    return found


def _compare_shares(found: PairColumns, values: Floats, exact: Whole, confidence: float) -> None:
    """Compare all pairs of systems whose values are 0 or 1, once for each table of changes."""
    if exact.size < _FEWEST:
        return
    systems, tasks = values.shape
    right = values[exact]
    both = (right @ right.T).astype(np.int64)
    counts = np.diag(both)
    one, other = np.triu_indices(exact.size, 1)
    higher, lower = counts[one] - both[one, other], counts[other] - both[one, other]
    places = find_places(systems, exact[one], exact[other])
    found.fill(places, difference=(higher - lower) / tasks, test=MCNEMAR)
    for up, down, among in group_alike(higher, lower):
        low, high, p_value = share_difference(up, down, tasks, confidence=confidence)
        found.fill(places[among], low=low, high=high, p_value=p_value)


def _compare_values(
    found: PairColumns,
    matrix: TaskMatrix,
    one: int,
    others: Whole,
    scale: ValueScale,
    groups: Groups | None,
    confidence: float,
) -> None:
    """Compare one system with others by the mean of their differences."""
    places = find_places(len(matrix.values), one, others)
    base, candidate = matrix.values[others], matrix.values[one]
    differences = candidate - base
    size = np.maximum(np.abs(base), np.abs(candidate))
    differences[np.abs(differences) <= ROUNDING * size] = 0.0
    fill = partial(found.fill, places)
    fill(difference=differences.mean(axis=1), test="paired t")
    repeats = matrix.find_repeats(one, others)
    unequal = np.zeros(others.size, dtype=bool)
    if repeats is not None and scale.reach is not None and groups is None:
        unequal = repeats.unequal_rows
    if groups is None and scale.reach is not None and differences.shape[1] > 1:
        bounds = bound_pairs_over_tasks(
            differences,
            confidence=confidence,
            reach=scale.reach,
            step=scale.reach if scale.step is None else scale.step,
            repeats=repeats,
        )
        fill(low=bounds.low, high=bounds.high, p_value=bounds.p_value)
    else:
        evidence = _list_students(
            differences, size.max(axis=1), groups, confidence, endless=scale.reach is None
        )
        low, high, p_value, reason = (list(column) for column in zip(*evidence, strict=True))
        fill(low=low, high=high, p_value=p_value)
        found.reason[places] = reason
    if groups is not None:
        fill(test="clustered paired t")
        return
    found.fill(places[unequal], test="paired t, permuted runs")
    _apply_flipped_signs(found, places[~unequal], differences[~unequal], confidence)


def _apply_flipped_signs(
    found: PairColumns, places: Whole, differences: Floats, confidence: float
) -> None:
    """Give pairs of which few tasks differ the p-value of flipped signs, where it is the larger."""
    differing = np.count_nonzero(differences, axis=1)
    few = (differing > 0) & (differing <= EXACT) & (2 * differing < differences.shape[1])
    for row in np.flatnonzero(few & np.isfinite(found.p_value[places])).tolist():
        place = places[row]
        flipped = permute_signs(differences[row], seed=0, resamples=0)
        if flipped is None or flipped <= found.p_value[place]:
            continue
        found.fill(place, p_value=flipped, test="sign-flip permutation")
        if flipped >= 1 - confidence:
            low, high = min(found.low[place], 0.0), max(found.high[place], 0.0)
            found.fill(place, low=low, high=high)


def _list_students(
    differences: Floats,
    largest: Floats,
    groups: Groups | None,
    confidence: float,
    *,
    endless: bool,
) -> Iterator[Evidence]:
    """Yield Student's interval, p-value and reason of each row of differences."""
    tasks = differences.shape[1]
    mean = differences.mean(axis=1)
    off = differences - mean[:, np.newaxis]
    alone = np.vecdot(off, off)
    totals = off if groups is None else groups.sum_rows(off)
    squares = alone if groups is None else np.vecdot(totals, totals)
    clusters: Iterable[Clusters]
    if groups is None:
        clusters = [Clusters.of(tasks)] * len(mean)
    else:
        clusters = groups.measure_rows(off, totals, squares)
    skewness = _measure_skewness(totals) if endless else np.zeros(len(mean))
    rows = zip(
        mean.tolist(), squares.tolist(), largest.tolist(), skewness.tolist(), clusters, strict=True
    )
    for value, square, most, skew, counted in rows:
        stderr = None if counted.too_few else float(np.sqrt(counted.inflation * square)) / tasks
        yield student(
            value,
            stderr,
            counted.degrees,
            largest=most,
            confidence=confidence,
            tail=Tail(skewness=skew, worth=counted.worth),
        )


def _measure_skewness(totals: Floats) -> Floats:
    """Return the skewness of the error of each row: see `measure_skewness`."""
    found = np.zeros(len(totals))
    largest = np.abs(totals).max(axis=1)
    known = largest > 0
    scaled = totals[known] / largest[known, np.newaxis]
    square = scaled * scaled
    total = square.sum(axis=1)
    found[known] = np.vecdot(square, scaled) / (total * np.sqrt(total))
    return found


@dataclass(frozen=True, slots=True)
class Groups:
    """Which tasks depend on each other, and how many there are of each kind."""

    members: Whole
    sizes: Whole

    @classmethod
    def of(cls, labels: Labels | None, tasks: int) -> Groups | None:
        """Return the clusters of the tasks; None where each stands alone."""
        if labels is None:
            return None
        _, members, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return None if sizes.size == tasks else cls(members.ravel(), sizes)

    def may_flip(self, confidence: float) -> bool:
        """Say whether signs flipped per cluster decide: all can be tried, and can reject."""
        return self.sizes.size <= EXACT and 2.0 ** (1 - self.sizes.size) < 1 - confidence

    def sum_rows(self, values: Floats) -> Floats:
        """Return the sum in each cluster of each row."""
        count = self.sizes.size
        at = self.members + count * np.arange(len(values))[:, np.newaxis]
        found = np.bincount(at.ravel(), values.ravel(), minlength=count * len(values))
        return found.reshape(len(values), count).astype(np.float64, copy=False)

    def measure_rows(self, off: Floats, totals: Floats, squares: Floats) -> list[Clusters]:
        """Return the clusters of each row's mean, as `Clusters.of_influences` does."""
        count, tasks = self.sizes.size, self.members.size
        if count < _FEWEST or self.sizes.min() == self.sizes.max():
            return [Clusters.of(count)] * len(off)
        shares = self.sizes / tasks
        second = float(shares @ shares)
        sums = {name: float(value) for name, value in sum_shares(shares).items()}
        every = np.vecdot(off, off)
        corrected = (totals * totals / (1 - shares)).sum(axis=1)
        inside = every - (totals * totals / self.sizes).sum(axis=1)
        return [
            Clusters.of_sums(
                count,
                rows=float(tasks),
                second=second,
                squares=square,
                corrected=over,
                inside=within,
                all_rows=whole,
                shares=sums,
            )
            for square, over, within, whole in zip(
                squares.tolist(), corrected.tolist(), inside.tolist(), every.tolist(), strict=True
            )
        ]


def compare_all_samples(
    samples: Sequence[tuple[Floats, Labels | None]], scale: ValueScale, *, confidence: float
) -> PairColumns:
    """Return the comparison of every pair of independent samples, each as `compare_unpaired` does.

    Each sample is given by its values and their clusters.
    """
    found = PairColumns.of_systems(len(samples))
    clustered = any(labels is not None for _, labels in samples)
    shares = scale.yes_or_no and not clustered
    exact = [shares and bool(np.isin(values, (0.0, 1.0)).all()) for values, _ in samples]
    one, other = np.triu_indices(len(samples), 1)
    is_exact = np.asarray(exact)[one] & np.asarray(exact)[other]
    _compare_counts(found, samples, (one, other), np.flatnonzero(is_exact), confidence)
    if is_exact.all():
        return found
    found.fill(~is_exact, test="clustered Welch t" if clustered else "Welch t")
    endless = scale.reach is None
    means = [SampleMean.of(values, labels, endless=endless) for values, labels in samples]
    for place in np.flatnonzero(~is_exact).tolist():
        difference, _, (low, high, p_value, reason) = compare_means(
            means[other[place]], means[one[place]], confidence=confidence
        )
        found.fill(place, difference=difference, low=low, high=high, p_value=p_value, reason=reason)
    return found


def _compare_counts(
    found: PairColumns,
    samples: Sequence[tuple[Floats, Labels | None]],
    pairs: tuple[Whole, Whole],
    places: Whole,
    confidence: float,
) -> None:
    """Compare pairs of samples of 0 and 1, once for each two counts of hits and of values."""
    one, other = (each[places] for each in pairs)
    counts = np.array([(int(values.sum()), values.size) for values, _ in samples])
    kinds, kind = np.unique(counts, axis=0, return_inverse=True)
    kind = kind.ravel()
    shares = kinds[:, 0] / kinds[:, 1]
    found.fill(places, difference=shares[kind[one]] - shares[kind[other]], test="Fisher's exact")
    for own, base, among in group_alike(kind[one], kind[other]):
        low, high, p_value = compare_shares(
            *kinds[base].tolist(), *kinds[own].tolist(), confidence=confidence
        )
        found.fill(places[among], low=low, high=high, p_value=p_value)
