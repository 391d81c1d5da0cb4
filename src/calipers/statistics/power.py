"""How many tasks, how many runs of each: what a comparison can see, planned or finished.

After Miller (2024), "Adding Error Bars to Evals", arXiv 2411.00640: the mean difference over n
tasks, each run K times by either system, has the variance (ω² + σ²_A/K + σ²_B/K) / n, where ω² is
the variance of the tasks' expected differences and σ² that of a system's runs of one task.

>>> difference = Spread(between=1 / 9, within=1 / 3, tasks=200)
>>> [count_tasks_needed(0.03, difference, runs=runs) for runs in (1, 10)]
[3878, 1262]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

from calipers.statistics import special
from calipers.statistics.clusters import Floats, Labels, as_finite
from calipers.statistics.intervals import normal_quantile
from calipers.support.errors import DataError
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Variance between tasks of what is expected, and within a task from run to run.

    `within` is None when no task was run twice: `between` then holds both.
    """

    between: float
    within: float | None
    tasks: int

    def per_task(self, runs: int) -> float:
        """Return the variance of one task's mean over this many runs."""
        if self.within is None and runs != 1:
            raise ValueError("tasks were run once: what more runs would save is unknown")
        return self.between + (self.within or 0.0) / runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """How much of the variance of a mean, and so of its interval, comes from what; sums to 1."""

    tasks: float
    runs: float | None = None  # None where no task was run twice: then they are in the tasks' part
    judges: float | None = None  # None where no record has two judgments: then in the runs' part


def split_variance(spread: Spread, share: float, judges: float | None = None) -> Components | None:
    """Return the parts of a mean's variance; `share` is the mean of 1 / runs over its tasks.

    `judges` is the variance that the judges of a record leave in its value. None where nothing can
    be told apart, or nothing varies.

    >>> found = split_variance(Spread(between=0.12, within=0.08, tasks=50), 1 / 4)
    >>> round(found.tasks, 3), round(found.runs, 3)
    (0.857, 0.143)
    """
    of_runs = None if spread.within is None else spread.within * share
    whole = spread.between + (of_runs or 0.0)
    if (of_runs is None and judges is None) or not whole:
        return None
    most = whole if of_runs is None else of_runs
    of_judges = 0.0 if judges is None else min(judges * share, most)
    tasks = spread.between - of_judges if of_runs is None else spread.between
    return Components(
        tasks=tasks / whole,
        runs=None if of_runs is None else (of_runs - of_judges) / whole,
        judges=None if judges is None else of_judges / whole,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPlan:
    """A way to see a difference: so many tasks, runs of each, and calls of each system."""

    runs: int
    tasks: int
    calls: int


def estimate_spread(values: ArrayLike, tasks: ArrayLike) -> Spread:
    """Return the variance components of a finished run, given a value and a task for each row.

    Method of moments for one-way random effects (Searle, Casella & McCulloch 1992, ch. 3), tasks
    weighted alike as the score weights them; a negative estimate is 0.
    """
    _, means, shares, within = _summarize_tasks(values, tasks)
    return _make_spread(means, within, (within or 0.0) * shares)


def estimate_difference_spread(
    base: ArrayLike, base_tasks: ArrayLike, candidate: ArrayLike, candidate_tasks: ArrayLike
) -> Spread:
    """Return the components of the difference between two finished runs, over the common tasks."""
    labels, means, shares, within = _summarize_tasks(base, base_tasks)
    others, other_means, other_shares, other_within = _summarize_tasks(candidate, candidate_tasks)
    _, here, there = np.intersect1d(labels, others, assume_unique=True, return_indices=True)
    differences = other_means[there] - means[here]
    if within is None or other_within is None:
        return _make_spread(differences, None, np.zeros(1))
    noise = within * shares[here] + other_within * other_shares[there]
    return _make_spread(differences, within + other_within, noise)


def assume_difference(score: Spread, *, correlation: float = 0.5) -> Spread:
    """Return the components of the difference to a planned system, assumed to vary like this one.

    `correlation` is that of the two systems' expected task scores. The default is the middle of
    what Miller (2024) reports for observed scores, and so cautious: noise hides a part of it. With
    0 nothing is shared, as between samples of different tasks; the tasks are then per sample.
    """
    within = None if score.within is None else 2 * score.within
    between = 2 * score.between * (1 - correlation)
    return Spread(between=between, within=within, tasks=score.tasks)


def count_tasks_needed(
    delta: float, difference: Spread, *, runs: int = 1, power: float = 0.8, confidence: float = 0.95
) -> int:
    """Return the number of tasks that detect a true difference of `delta` with this power.

    Miller's (z_α/2 + z_β)² · variance / δ², and z²_α/2 / 2 tasks more for the t test that will be
    used: Guenther (1981), The American Statistician 35, 243. Right to a task from 6 tasks on.
    """
    if delta == 0:
        raise ValueError("no number of tasks shows a difference of zero")
    critical = normal_quantile(confidence)
    reach = critical + special.ndtri(power)
    return ceil((reach / delta) ** 2 * difference.per_task(runs) + critical**2 / 2)


def count_tasks_for_width(
    width: float,
    score: Spread,
    *,
    runs: int = 1,
    confidence: float = 0.95,
    reach: float | None = None,
) -> int:
    """Return the number of tasks for an interval of a mean no wider than this, on average.

    (2 z_α/2 / width)² · variance, and z²_α/2 / 2 tasks more because the interval is Student's. Of
    values in a range that is `reach` wide, no fewer than for an interval of values all alike, which
    is z² / (tasks + z²) of the range: what was not seen may still lie at its other end.

    >>> count_tasks_for_width(0.1, Spread(between=0.12, within=0.08, tasks=50), runs=4)
    218
    """
    critical = normal_quantile(confidence)
    by_spread = ceil((2 * critical / width) ** 2 * score.per_task(runs) + critical**2 / 2)
    if reach is None:
        return by_spread
    return max(by_spread, ceil(critical**2 * (reach / width - 1)))


def count_tasks_to_decide(
    distance: float, *, here: float, there: float, power: float = 0.8, confidence: float = 0.95
) -> int:
    """Return the number of tasks whose interval excludes a threshold at this distance.

    `here` is the variance of a task's score at the value, `there` at the mark: an interval by the
    score test, as Wilson's, is as wide as the latter says. So surely as `power` says.
    """
    reach = normal_quantile(confidence) * sqrt(there) + special.ndtri(power) * sqrt(here)
    return ceil((reach / distance) ** 2)


def find_detectable(
    tasks: int, difference: Spread, *, runs: int = 1, power: float = 0.8, confidence: float = 0.95
) -> float | None:
    """Return the smallest true difference detected with this power; None with too few tasks."""
    critical = normal_quantile(confidence)
    spare = tasks - critical**2 / 2
    reach = critical + special.ndtri(power)
    return reach * sqrt(difference.per_task(runs) / spare) if spare > 0 else None


def _summarize_tasks(
    values: ArrayLike, tasks: ArrayLike
) -> tuple[Labels, Floats, Floats, float | None]:
    """Return tasks, their means, 1 / runs of each, and the mean variance of the repeated ones."""
    scores = as_finite(values)
    labels, at, runs = np.unique(np.asarray(tasks), return_inverse=True, return_counts=True)
    means = np.bincount(at, weights=scores) / runs
    squares = np.bincount(at, weights=np.square(scores - means[at]))
    repeated = runs > 1
    within = squares[repeated] / (runs[repeated] - 1)
    return labels, means, 1 / runs, float(within.mean()) if within.size else None


def _make_spread(means: Floats, within: float | None, noise: Floats) -> Spread:
    """Return the variance of the means, less the noise left in them."""
    if means.size <= 1:
        raise DataError(
            f"the spread between tasks needs two tasks, and {means.size} can be used",
            fix="add tasks, or check that both files name them alike",
        )
    between = max(0.0, float(means.var(ddof=1) - noise.mean()))
    return Spread(between=between, within=within, tasks=means.size)
