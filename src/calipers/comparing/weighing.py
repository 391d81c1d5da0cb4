"""Paired tasks with the runs behind them, weighed by task or by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from calipers.comparing.sides import Floats
from calipers.metrics.declaration import RUNS, TASK
from calipers.stats.paired_means import Repeats
from calipers.tasks import SQUARES, VALUE

_ROUNDING = 1e-9  # two values that differ by less are shown alike


@dataclass(frozen=True, kw_only=True)
class PairedTasks:
    """A metric's value of each task on both sides, and how many runs each is the mean of."""

    base: Floats
    candidate: Floats
    base_runs: Floats
    candidate_runs: Floats
    squares: Floats | None  # of the runs around their means; None where a task has one value

    @classmethod
    def of(cls, both: pl.DataFrame) -> Self:
        """Read a table of joined tasks, the candidate's columns with their suffix."""
        candidate = f"{SQUARES}_candidate"
        squares = None
        if SQUARES in both.columns and candidate in both.columns:
            squares = (both[SQUARES] + both[candidate]).to_numpy()
        return cls(
            base=both[VALUE].to_numpy(),
            candidate=both[f"{VALUE}_candidate"].to_numpy(),
            base_runs=both[RUNS].cast(pl.Float64).to_numpy(),
            candidate_runs=both[f"{RUNS}_candidate"].cast(pl.Float64).to_numpy(),
            squares=squares,
        )

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


def joined(values: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Join the tasks that both sides have a value of, in order."""
    return values.join(others, on=TASK, suffix="_candidate").sort(TASK)
