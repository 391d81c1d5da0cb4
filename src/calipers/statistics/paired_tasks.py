"""Paired tasks with the runs behind them, weighed by task or by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from calipers.statistics.arrays import Floats, Labels
from calipers.statistics.paired import Comparison, compare_paired
from calipers.statistics.paired_means import Repeats
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

_ROUNDING = 1e-9  # two values that differ by less are shown alike
_DECIMALS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueScale:
    """What a metric's values can be: right or wrong, how far apart, and which way is better."""

    yes_or_no: bool
    reach: float | None  # the largest difference; None where it has no bound
    step: float | None  # how far one run can move a value
    higher_is_better: bool | None


@dataclass(frozen=True, kw_only=True)
class PairedTasks:
    """A metric's value of each task on both sides, and how many runs each is the mean of."""

    base: Floats
    candidate: Floats
    base_runs: Floats
    candidate_runs: Floats
    squares: Floats | None  # of the runs around their means; None where a task has one value

    @property
    def repeats(self) -> Repeats | None:
        """Return the runs behind the values, where the values are means of runs."""
        if self.squares is None:
            return None
        return Repeats(base=self.base_runs, candidate=self.candidate_runs, squares=self.squares)

    @property
    def by_task(self) -> tuple[float, float]:
        """Return the value of each side when all tasks count the same."""
        return float(self.base.mean()), float(self.candidate.mean())

    @property
    def by_row(self) -> tuple[float, float] | None:
        """Return the value of each side when all rows do; None where a task has one value."""
        if self.squares is None:
            return None
        return (
            float(np.average(self.base, weights=self.base_runs)),
            float(np.average(self.candidate, weights=self.candidate_runs)),
        )

    @property
    def weights_matter(self) -> bool:
        """Say whether a side has another value when rows count the same."""
        by_row = self.by_row
        return by_row is not None and not np.allclose(
            self.by_task, by_row, rtol=_ROUNDING, atol=_ROUNDING
        )

    def weigh_rows(self) -> tuple[Floats, Floats, float]:
        """Return values whose means are those over rows, and how many tasks they are worth.

        A task moves such a mean by its share of the rows times how far it lies from it, and that
        is how its value here lies from the mean. The worth is that of Kish (1965): (Σw)² / Σw².
        """
        sides = []
        for values, runs in ((self.base, self.base_runs), (self.candidate, self.candidate_runs)):
            mean = np.average(values, weights=runs)
            sides.append(mean + runs / runs.mean() * (values - mean))
        weights = self.base_runs / self.base_runs.mean()
        weights = weights + self.candidate_runs / self.candidate_runs.mean()
        worth = float(weights.sum() ** 2 / np.square(weights).sum())
        return sides[0], sides[1], worth


def compare_tasks(
    tasks: PairedTasks,
    scale: ValueScale,
    *,
    weight: Literal["task", "row"],
    confidence: float,
    seed: int,
    resamples: int,
    fixed: bool = False,
    clusters: Labels | None = None,
) -> Comparison:
    """Return the comparison of two sides over the tasks of both, weighed by task or by row."""
    by_row = weight == "row" and tasks.weights_matter
    before, after, worth = tasks.weigh_rows() if by_row else (tasks.base, tasks.candidate, None)
    zeros_and_ones = all(bool(np.isin(each, (0.0, 1.0)).all()) for each in (before, after))
    found = compare_paired(
        before,
        after,
        binary=scale.yes_or_no and zeros_and_ones and not by_row,
        higher_is_better=scale.higher_is_better,
        confidence=confidence,
        seed=seed,
        resamples=resamples,
        clusters=clusters,
        reach=scale.reach,
        step=scale.step,
        repeats=None if by_row and not fixed else tasks.repeats,
        fixed=fixed,
        freedom=None if worth is None else max(1.0, worth - 1),
    )
    if not by_row:
        return found
    change = np.sign(np.round(tasks.candidate - tasks.base, _DECIMALS))
    better = -1 if scale.higher_is_better is False else 1
    wins, losses = int((change == better).sum()), int((change == -better).sum())
    return replace(found, wins=wins, losses=losses, ties=change.size - wins - losses)
