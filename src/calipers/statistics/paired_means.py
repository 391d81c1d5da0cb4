"""The mean of differences between pairs: an interval that allows for what it has not seen.

Student's interval is right where differences are many and smooth. Two things break it. Most tasks
may come out alike, so that the spread is seen too small, or not at all: then up to two more tasks
join the others, one up and one down by what an unseen task may differ, as Bonett & Price (2012),
Br. J. Math. Stat. Psychol. 65, 479, have it for shares. What they add to the spread is given, not
estimated, so that degrees of freedom grow with it (Satterthwaite 1946). And one side may have fewer
runs of a task than the other: its luck is then hidden in a few values. There the variance is at
least that of the permutation test which deals the runs of each task out again to the two sides
(Pitman 1937).
"""

from __future__ import annotations

from math import sqrt

from calipers.statistics import special
from calipers.statistics.arrays import Floats
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

_MOST_UNSEEN = 2.0
_NEARLY_ALL = 0.9  # tasks that differ alike, from which on two unseen ones are counted
_LESS = 0.25  # of the divisor's 1 that each unseen task takes back
_CERTAIN = 1e9  # degrees of freedom of a spread that is not estimated
_ROUNDING = 1e-12
_DECIMALS = 12  # of values that are the same
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """The runs behind each pair: how many on either side, and their squared deviations in all."""

    base: Floats
    candidate: Floats
    squares: Floats  # Σ(run − its side's mean)², both sides together

    @property
    def unequal(self) -> bool:
        """Say whether any task has more runs on one side."""
        return bool((self.base != self.candidate).any())

    @property
    def shares(self) -> Floats:
        """Return the variance of each difference in units of a run's variance."""
        return 1 / self.base + 1 / self.candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceBounds:
    """An interval of a mean difference, the p-value of none, and its standard error."""

    low: float
    high: float
    p_value: float
    stderr: float


def bound_over_tasks(
    differences: Floats,
    *,
    confidence: float,
    reach: float,
    step: float,
    repeats: Repeats | None = None,
    freedom: float | None = None,
) -> DifferenceBounds:
    """Return the interval of the mean over tasks like these, and its p-value; the two agree.

    Args:
        differences: one per task, two or more.
        confidence: of the interval.
        reach: the largest difference that there can be, either way.
        step: how far one run can move a task that has a single one.
        repeats: the runs behind the differences, where these are means of runs.
        freedom: degrees of freedom, where tasks do not weigh alike; else one less than tasks.
    """
    n = differences.size
    mean = float(differences.mean())
    unseen, square = _count_unseen(differences, step, repeats)
    size = n + unseen
    centre = mean * n / size
    seen = float(np.square(differences - mean).sum())
    added = n * (mean - centre) ** 2 + unseen * (square + centre**2)
    variance = (seen + added) / (size - 1 + _LESS * unseen)
    # Of a part of the spread that is given, degrees of freedom grow with it.
    grown = min(((seen + added) / seen) ** 2, _CERTAIN) if seen > _ROUNDING else _CERTAIN
    degrees = (size - 1 if freedom is None else freedom) * grown
    stderr = sqrt(variance / size)
    half = t_reach(degrees, confidence) * stderr
    low, high = min(mean, centre - half), max(mean, centre + half)
    p_value = _compute_p((centre / stderr) ** 2 if stderr else np.inf, degrees)
    if repeats is not None and repeats.unequal:
        dealt = _permute_runs(differences, repeats, unseen * square, size)
        factor = t_reach(_CERTAIN, confidence) ** 2 / size
        bounds = dealt.bounds(mean, factor, reach)
        low, high = min(low, bounds[0]), max(high, bounds[1])
        p_value = max(p_value, _compute_p(dealt.statistic(mean, size), _CERTAIN))
    return DifferenceBounds(
        low=max(-reach, low), high=min(reach, high), p_value=p_value, stderr=stderr
    )


def bound_over_runs(
    differences: Floats, *, confidence: float, reach: float | None, step: float, repeats: Repeats
) -> DifferenceBounds | None:
    """Return the interval of the mean over these very tasks: only their runs might vary.

    A task's runs vary as both sides' runs do around their means; one with a single run on either
    side as the runs of the others. None where no task has more than that. Degrees of freedom after
    Satterthwaite (1946).
    """
    known = repeats.base + repeats.candidate - _TWO
    if not known.sum():
        return None
    n = differences.size
    mean = float(differences.mean())
    pooled = float(repeats.squares.sum() / known.sum())
    of_run = np.divide(repeats.squares, known, out=np.full(n, pooled), where=known > 0)
    of_tasks = of_run * repeats.shares
    total = float(of_tasks.sum())
    degrees = float(np.maximum(known, 1).sum())
    if total > 0:
        degrees = min(degrees, total**2 / float((of_tasks**2 / np.maximum(known, 1)).sum()))
    still = float(np.mean(repeats.squares <= _ROUNDING))
    unseen = _MOST_UNSEEN * still * step**2 * _average_square_of_run(repeats)
    stderr = sqrt(total + unseen) / n
    half = t_reach(max(1.0, degrees), confidence) * stderr
    largest = np.inf if reach is None else reach
    return DifferenceBounds(
        low=max(-largest, mean - half),
        high=min(largest, mean + half),
        p_value=_compute_p((mean / stderr) ** 2 if stderr else np.inf, max(1.0, degrees)),
        stderr=stderr,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variance:
    """The variance of a task's difference, were the mean x: constant + linear · x + square · x²."""

    constant: float
    linear: float = 0.0
    square: float = 0.0

    def bounds(self, mean: float, factor: float, reach: float) -> tuple[float, float]:
        """Return the means that lie within √factor standard deviations of the observed one."""
        second = 1 - factor * self.square
        first = mean + factor * self.linear / 2
        if second <= 0:
            return -reach, reach
        root = sqrt(max(0.0, first**2 - second * (mean**2 - factor * self.constant)))
        return (first - root) / second, (first + root) / second

    def statistic(self, mean: float, size: float) -> float:
        """Return the squared statistic of a true mean of 0."""
        return mean**2 * size / self.constant if self.constant else np.inf


def _permute_runs(differences: Floats, repeats: Repeats, unseen: float, size: float) -> _Variance:
    """Return the variance when the runs of each task are dealt out again to the two sides."""
    per_run = 1 / (repeats.base + repeats.candidate - 1)
    within = float((repeats.shares * per_run * repeats.squares).sum())
    return _Variance(
        constant=(within + unseen + float((per_run * differences**2).sum())) / size,
        linear=-2 * float((per_run * differences).sum()) / size,
        square=float(per_run.sum()) / size,
    )


def _count_unseen(differences: Floats, step: float, repeats: Repeats | None) -> tuple[float, float]:
    """Return how many unseen tasks to count, and the square of each one's difference.

    Two where nearly all tasks differ alike, none where no two do. An unseen one differs like those
    that are unlike the most, with one more among them that differs by what a single run can do, and
    by no more than that.
    """
    n, mean = differences.size, differences.mean()
    values, counts = np.unique(differences.round(_DECIMALS), return_counts=True)
    most = int(counts.max())
    usual = min(values[counts == most], key=lambda value: abs(value - mean))
    apart = float(np.square(differences - usual).sum())
    one_run = step**2 * (1.0 if repeats is None else _average_square_of_run(repeats))
    alike = min(1.0, (most - 1) / (n - 1) / _NEARLY_ALL)
    return _MOST_UNSEEN * alike, min(one_run, (apart + one_run) / (n - most + 1))


def _average_square_of_run(repeats: Repeats) -> float:
    """Return the mean square by which one run of a step of 1 moves a task's difference."""
    return float(np.mean(1 / (repeats.base * repeats.candidate)))


def t_reach(freedom: float, confidence: float) -> float:
    """Return the number of standard errors that an interval extends, by Student's t."""
    return special.stdtrit(freedom, (1 + confidence) / 2)


def _compute_p(square: float, freedom: float) -> float:
    return 2 * special.stdtr(freedom, -sqrt(square)) if np.isfinite(square) else 0.0
