"""Which of two systems is better, task by task, with an error that holds however often one looks.

The difference of the two on a task, mapped to [0, 1], is what `statistics.anytime` bets on: that
its mean is above one half, and that it is below. Tasks come in an order that was drawn before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from calipers.statistics.sequential import Bets, Bounds, mean_bounds

SCHEMA = "calipers.better/1"
Evidence = Literal["interval", "point"]
_EVEN = 0.5  # of a difference in [−1, 1], mapped to [0, 1]


class TaskDifference(NamedTuple):
    """What the difference of two systems on a task can be, in [−1, 1]; better is positive."""

    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Better:
    """Which of two systems is better, as far as a run has come."""

    names: tuple[str, str]
    metric: str
    better: int | None  # of the names; None where they cannot be told apart, or not yet
    is_over: bool  # whether further tasks could not change the decision
    tasks: int  # finished by both systems, without a gap in the order drawn
    of: int
    after: int | None  # the number of tasks after which it was decided
    difference: Bounds  # first − second, in the unit of the metric
    evidence: Evidence
    alpha: float
    seed: int
    made: int
    planned: int

    @property
    def stopped(self) -> bool:
        """Say whether calls were left out because they could not change the decision."""
        return self.is_over and self.made < self.planned

    @property
    def says(self) -> str:
        """The decision in a sentence."""
        one, other = self.names
        error = f"error rate {self.alpha:.0%}".replace("%", " %")
        if self.better is not None:
            winner, loser = (one, other) if self.better == 0 else (other, one)
            so_far = f"after {self.after:,} of {self.of:,} tasks"
            where = "" if self.evidence == "interval" else " on these tasks"
            return f"{winner} is better than {loser} in {self.metric}{where} ({error}, {so_far})"
        so_far = f"after {self.tasks:,} of {self.of:,} tasks"
        if not self.is_over:
            return f"{one} and {other}: not decided yet in {self.metric} ({so_far})"
        if self.evidence == "point":
            return f"{one} and {other} are equally good in {self.metric} on these {self.of:,} tasks"
        left = "" if self.tasks == self.of else ", and the others could not decide it"
        return f"{one} and {other} cannot be told apart in {self.metric} ({error}, {so_far}{left})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as better.json has it."""
        return {
            "schema": SCHEMA,
            "systems": list(self.names),
            "metric": self.metric,
            "better": None if self.better is None else self.names[self.better],
            "is_over": self.is_over,
            "says": self.says,
            "tasks": self.tasks,
            "of": self.of,
            "after": self.after,
            "low": self.difference.low,
            "high": self.difference.high,
            "evidence": self.evidence,
            "alpha": self.alpha,
            "seed": self.seed,
            "calls": {"made": self.made, "planned": self.planned},
        }


class PairSequence:
    """The differences of two systems as tasks come in, and what they decide.

    With `evidence` "interval" the question is which system is better on tasks like these, which
    may stay undecided. With "point" it is which is better on exactly these tasks, drawn without
    replacement, which the last task decides.
    """

    def __init__(self, tasks: Sequence[int], *, alpha: float, evidence: Evidence) -> None:
        self.evidence = evidence
        self.alpha = alpha
        self.better: int | None = None
        self.after: int | None = None
        self._tasks = tasks
        self._came: dict[int, TaskDifference] = {}
        self._least: list[float] = []
        self._most: list[float] = []
        self._total = len(tasks) if evidence == "point" else None
        self._bets = [Bets(mark=_EVEN, alpha=alpha / 2, total=self._total) for _ in range(2)]

    @property
    def seen(self) -> int:
        """How many tasks have counted, in the order drawn."""
        return len(self._least)

    @property
    def is_over(self) -> bool:
        """Say whether the comparison is decided, or no further task could decide it."""
        if self.better is not None:
            return True
        if self._least != self._most:
            return False  # a failed call may be repeated
        left = len(self._tasks) - self.seen
        if not left or self._total is not None:
            return not left
        return not any(bets.place([1.0] * left).won_after for bets in self._bets)

    def take(self, differences: Mapping[int, TaskDifference]) -> None:
        """Add the differences on tasks, given in any order; they count in the order drawn."""
        self._came |= differences
        new: list[TaskDifference] = []
        for task in self._tasks[self.seen :]:
            if task not in self._came:
                break
            new.append(self._came.pop(task))
        if not new:
            return
        above = [_map_to_unit(each.least) for each in new]
        below = [_map_to_unit(-each.most) for each in new]
        self._least += above
        self._most += (1 - each for each in below)
        self._bets = [
            bets.place(values) for bets, values in zip(self._bets, (above, below), strict=True)
        ]
        if self.better is None:
            self._decide()

    def _decide(self) -> None:
        won = [bets.won_after for bets in self._bets]
        if any(won):
            first = min(each for each in won if each is not None)
            self.better, self.after = won.index(first), first
        elif self._total == self.seen:
            low, high = sum(self._least) / self.seen, sum(self._most) / self.seen
            if low > _EVEN or high < _EVEN:
                self.better, self.after = (0 if low > _EVEN else 1), self.seen

    def bound_difference(self) -> Bounds:
        """Return the confidence sequence of the mean difference."""
        if not self._least:
            return Bounds(-1.0, 1.0)
        around = mean_bounds(self._least, self._most, total=self._total, alpha=self.alpha)
        return Bounds(2 * around.low - 1, 2 * around.high - 1)


def _map_to_unit(difference: float) -> float:
    return (difference + 1) / 2


def subtract_bounds(
    one: Iterable[tuple[int, Bounds | None]], other: Mapping[int, Bounds | None]
) -> dict[int, TaskDifference]:
    """Return the difference on each task that both have; none where either has no value."""
    found = {}
    for task, first in one:
        if task in other:
            second = other[task]
            found[task] = (
                TaskDifference(0.0, 0.0)
                if first is None or second is None
                else TaskDifference(first.low - second.high, first.high - second.low)
            )
    return found
