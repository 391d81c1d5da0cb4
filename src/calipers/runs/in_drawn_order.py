"""Calls in a random order of the tasks, drawn beforehand, until the question is decided.

All runs of a task are called. Whatever the order in which calls finish, tasks are evaluated in the
order drawn, so that fast ones do not count first.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl

from calipers.engines.plan import FAILED as CALL_FAILED
from calipers.runs.plan import CallPlace, CallPlan
from calipers.runs.state import FAILED, MISSING, State
from calipers.scores.options import Options
from calipers.scores.tasks import read_tasks

if TYPE_CHECKING:
    from calipers.comparisons.better import Better
    from calipers.gates.result import Early

_IDENTITY = ("model", "tier")

Unit = tuple[int, int, int]
"""System, tier and task: all runs of a task."""


class InDrawnOrder(ABC):
    """Chooses calls task by task, and evaluates a task once all its runs are finished."""

    def __init__(self, plan: CallPlan, options: Options, seed: int) -> None:
        self.seed = seed
        self._plan = plan
        self._order = draw_order(plan, seed)
        self._options = options  # with the metrics that are looked at
        self._state: State | None = None
        self._units: dict[Unit, list[Mapping[str, Any]]] = {}
        self._fresh: list[Mapping[str, Any]] = []  # of tasks that are done in all their runs
        self._looking: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Say whether further calls could not change the decision."""

    @property
    def has_failed(self) -> bool:
        """Say whether not even calls that failed need to be made again."""
        return False

    @abstractmethod
    def notices(self) -> Iterator[str]:
        """Yield what the user should know before the first call."""

    @abstractmethod
    def describe(self, made: int) -> Early | Better:
        """Return the state of the decision after these calls."""

    @abstractmethod
    def _helps(self, system: int, tier: int, task: int) -> bool:
        """Say whether a task may help to decide."""

    @abstractmethod
    def _see(self, system: int, tier: int, rows: pl.DataFrame) -> None:
        """Take the measured rows of some tasks."""

    def begin(self, state: State, records: Iterator[Mapping[str, Any]]) -> None:
        """Take the folder's records; failed calls are repeated, and count then."""
        self._state = state
        for record in records:
            if record.get("error") is None:
                self.take(*state.locate(record), record)
        kept, self._fresh = self._fresh, []
        self._look(kept)

    def calls(self, system: int) -> Iterator[int]:
        """Yield failed calls first, which complete runs need, then those that help decide."""
        assert self._state is not None
        states = self._state.calls[system]
        tiers, runs = range(len(self._plan.tiers)), range(1, self._plan.suite.runs + 1)
        for wanted in (FAILED, MISSING):
            for place in (CallPlace(*each) for each in product(self._order, tiers, runs)):
                if self.has_failed or (wanted == MISSING and self.is_over):
                    return
                number = self._plan.number_place(place)
                is_open = states[number] == wanted
                if is_open and (wanted == FAILED or self._helps(system, place.tier, place.task)):
                    yield number

    def take(self, system: int, number: int, record: Mapping[str, Any]) -> None:
        """Keep a record until the task is done in all its runs."""
        place = self._plan.place(number)
        unit = (system, place.tier, place.task)
        records = self._units.setdefault(unit, [])
        records.append(record)
        if len(records) == self._plan.suite.runs:
            self._fresh += self._units.pop(unit)

    async def ready(self) -> None:
        """Evaluate the records so far; concurrent callers share one evaluation."""
        while self._fresh or self._looking is not None:
            if self._looking is None:
                records, self._fresh = self._fresh, []
                self._looking = asyncio.create_task(asyncio.to_thread(self._look, records))
            looking = self._looking
            await asyncio.shield(looking)
            if self._looking is looking:
                self._looking = None

    def _look(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Measure the new records, and evaluate the tasks of each system in each tier."""
        if not (records and self._options.metrics):
            return
        rows = read_tasks(records, self._options, keep=_IDENTITY).rows
        systems = range(len(self._plan.suite.systems))
        for system, tier in product(systems, range(len(self._plan.tiers))):
            model, tier_name = self._plan.name_group(system, tier)
            is_own = pl.col("tier").eq_missing(pl.lit(tier_name, pl.String))
            own = rows.filter(pl.col("model") == model, is_own)
            if own.height:
                self._see(system, tier, own)


def bound_runs(value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the least and the most that a mean over runs can be: what failed might be 0 or 1."""
    least, most = (pl.when(CALL_FAILED).then(e).otherwise(value).mean() for e in (0.0, 1.0))
    return least.alias("least"), most.alias("most")


def draw_order(plan: CallPlan, seed: int) -> list[int]:
    """Return a random order of the tasks, the same for the same data and seed."""
    salt = f"{plan.tasks.sha256} {seed}"
    drawn = [sha256(f"{salt} {task['id']}".encode()).digest() for task in plan.tasks.tasks]
    return sorted(range(len(drawn)), key=drawn.__getitem__)
