"""Runs that end early: as soon as the gate is decided, or it is clear which system is better.

Tasks are called in a random order that is drawn beforehand, all runs of a task together. Whatever
the order in which calls finish, tasks are evaluated in the order drawn, so that fast ones do not
count first; intervals that hold at any time say when the question is decided.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from typing import Any

import polars as pl

from calipers.comparisons.sequential_pair import Better, Evidence, PairSequence, subtract_bounds
from calipers.engines.plan import FAILED as CALL_FAILED
from calipers.gates.baselines import RecordedGroup, read_baseline
from calipers.gates.policy import Policy, read_policy
from calipers.gates.result import By, Early
from calipers.gates.rules.baseline_rule import Baseline
from calipers.gates.sequential_checks import (
    NO_MEAN,
    CheckSequence,
    Demand,
    TaskValue,
    find_row_value,
)
from calipers.metrics import Metric, metric_named
from calipers.runs.plan import CallPlace, CallPlan
from calipers.runs.prepare import Prepared, read_suite_options
from calipers.runs.resume import CALL_HAS_FAILED, CALL_IS_MISSING, State
from calipers.runs.suite import list_gate_fields
from calipers.scores.options import Options
from calipers.scores.task_values import read_task_rows
from calipers.statistics.sequential import Bounds
from calipers.support.errors import UsageError

_IDENTITY = ("model", "tier", "variant")

Unit = tuple[int, int, int]
"""System, tier and task: all runs of a task."""


class EarlyStopping(ABC):
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
        """Return True if further calls could not change the decision."""

    @property
    def has_failed(self) -> bool:
        """Return True if not even calls that failed need to be made again."""
        return False

    @abstractmethod
    def notices(self) -> Iterator[str]:
        """Yield what the user should know before the first call."""

    @abstractmethod
    def describe(self, made: int) -> Early | Better:
        """Return the state of the decision after these calls."""

    @abstractmethod
    def _helps(self, system: int, tier: int, task: int) -> bool:
        """Return True if a task may help to decide."""

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
        for wanted in (CALL_HAS_FAILED, CALL_IS_MISSING):
            for place in (
                CallPlace(*place_parts) for place_parts in product(self._order, tiers, runs)
            ):
                if self.has_failed or (wanted == CALL_IS_MISSING and self.is_over):
                    return
                number = self._plan.number_place(place)
                is_open = states[number] == wanted
                if is_open and (
                    wanted == CALL_HAS_FAILED or self._helps(system, place.tier, place.task)
                ):
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
        rows = read_task_rows(records, self._options, keep=_IDENTITY).rows
        systems = range(len(self._plan.suite.systems))
        condition = pl.col(self._plan.suite.condition_field)
        for system, tier in product(systems, range(len(self._plan.tiers))):
            model, tier_name = self._plan.name_group(system, tier)
            is_own = condition.eq_missing(pl.lit(tier_name, pl.String))
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


_GATE_CONFIDENCE = 0.95
_Groups = dict[tuple[int, int], list[CheckSequence]]  # by system and tier


class UntilDecided(EarlyStopping):
    """Chooses calls that help to decide, and knows when all is decided."""

    def __init__(
        self, plan: CallPlan, policy: Policy, options: Options, by: Sequence[str], seed: int
    ) -> None:
        super().__init__(plan, options, seed)
        self._by = by
        self._groups = _open_sequences(plan, policy, by, self._order)
        names = (
            name
            for sequence in _iterate_sequences(self._groups)
            for name in sequence.demand.metrics
        )
        self._options = replace(options, metrics=tuple(dict.fromkeys(names)))

    def notices(self) -> Iterator[str]:
        """Say which checks need all calls."""
        unknown = {
            f"{sequence.demand.name} ({sequence.why_not})"
            for sequence in _iterate_sequences(self._groups)
            if sequence.why_not is not None
        }
        if unknown:
            yield (
                "only a sure failure can end the run early: all calls are needed for "
                f"{', '.join(sorted(unknown))}"
            )

    @property
    def can_fail(self) -> bool:
        """Return True if there is anything to decide."""
        return any(self._groups.values())

    @property
    def has_failed(self) -> bool:
        """Return True if it is sure that the gate fails."""
        return any(sequence.decided == "fail" for sequence in _iterate_sequences(self._groups))

    @property
    def is_over(self) -> bool:
        """Return True if the verdict is sure."""
        return self.has_failed or all(
            sequence.decided == "pass" or sequence.is_all_seen
            for sequence in _iterate_sequences(self._groups)
        )

    def describe(self, made: int) -> Early:
        """Return the state of the decision."""
        groups = self._groups
        return Early(
            stopped=self.is_over and made < self._plan.calls,
            made=made,
            planned=self._plan.calls,
            seed=self.seed,
            alpha=1 - _GATE_CONFIDENCE,
            shared_by=_count_bets(groups),
            standings={
                _make_key(self._plan, self._by, *at): tuple(
                    sequence.describe() for sequence in sequences
                )
                for at, sequences in groups.items()
            },
        )

    def _helps(self, system: int, tier: int, task: int) -> bool:
        return any(group.is_open_for(task) for group in self._groups[system, tier])

    def _see(self, system: int, tier: int, rows: pl.DataFrame) -> None:
        for sequence in self._groups[system, tier]:
            sequence.take(self._bound_values(rows, sequence.demand))

    def _bound_values(self, rows: pl.DataFrame, demand: Demand) -> Iterator[tuple[int, TaskValue]]:
        """Yield the possible values of each task: the mean of its runs."""
        if demand.on is None or demand.value is None:
            return
        value = demand.value.fill_null(demand.on.value)
        known = (demand.value.is_not_null() & ~pl.col(CALL_FAILED)).any()
        tasks = rows.group_by("id").agg(*bound_runs(value), known.alias("known"))
        for name, *task in tasks.iter_rows():
            yield self._plan.find_task(name), TaskValue(*task)


def plan_until_decided(of: Prepared, seed: int) -> UntilDecided:
    """Return what chooses the calls of a suite's run; UsageError says why nothing can."""
    suite, base = of.suite, of.base
    if suite.policy is None:
        raise UsageError(
            "--until-decided: the suite has no policy, so there is nothing to decide",
            fix="name one in the suite: policy: policy.yaml",
        )
    policy = read_policy(base / suite.policy)
    by = list_gate_fields(suite)
    chooser = UntilDecided(of.plan, policy, read_suite_options(suite, base), by, seed)
    if not chooser.can_fail:
        raise UsageError(
            f"--until-decided: nothing in {suite.policy} can fail the gate",
            fix="for example thresholds: {blocking: {accuracy: 90}}",
        )
    return chooser


def _open_sequences(
    plan: CallPlan, policy: Policy, by: Sequence[str], order: Sequence[int]
) -> _Groups:
    """Return the checks of each system in each tier; all of them share the error probability."""
    rule = policy.find(Baseline)
    file = None if rule is None else rule.file
    baseline = None if file is None else read_baseline(Path(file))

    def recorded(at: tuple[int, int]) -> RecordedGroup | None:
        return None if baseline is None else baseline.group(dict(_make_key(plan, by, *at)))

    demands = {
        at: [
            (demand, _select_tasks(demand, plan, order))
            for demand in policy.list_demands(recorded(at))
        ]
        for at in product(range(len(plan.suite.systems)), range(len(plan.tiers)))
    }

    def opened(alpha: float) -> _Groups:
        begin = partial(CheckSequence, alpha=alpha, of_these=policy.evidence == "point")
        return {at: [begin(*demand) for demand in few] for at, few in demands.items()}

    return opened((1 - _GATE_CONFIDENCE) / max(1, _count_bets(opened(1.0))))


def _iterate_sequences(groups: _Groups) -> Iterator[CheckSequence]:
    return chain.from_iterable(groups.values())


def _count_bets(groups: _Groups) -> int:
    return sum(sequence.is_a_bet for sequence in _iterate_sequences(groups))


def _select_tasks(demand: Demand, plan: CallPlan, order: Sequence[int]) -> list[int]:
    """Return the tasks that a check is about, in the order drawn."""
    tasks = plan.tasks.tasks
    if demand.scenario is not None:
        return [at for at in order if str(tasks[at]["id"]) == demand.scenario]
    if demand.category is not None:
        return [at for at in order if str(tasks[at].get("category")) == demand.category]
    return list(order)


def _make_key(plan: CallPlan, by: Sequence[str], system: int, tier: int) -> By:
    names = ("model", plan.suite.condition_field)
    fields = dict(zip(names, plan.name_group(system, tier), strict=True))
    return tuple((name, fields[name]) for name in by)


_PAIR_ALPHA = 0.05
_BOTH = 2


class UntilBetter(EarlyStopping):
    """Calls both systems on the same tasks until one of them is certainly better."""

    def __init__(
        self, plan: CallPlan, options: Options, metric: str, evidence: Evidence, seed: int
    ) -> None:
        super().__init__(plan, options, seed)
        self._metric, self._value = _choose_metric(metric)
        self._options = replace(options, metrics=(metric,))
        self._sides = _choose_sides(plan)
        self._values: list[dict[int, Bounds | None]] = [{} for _ in self._sides]
        self._pairs = PairSequence(self._order, alpha=_PAIR_ALPHA, evidence=evidence)

    @property
    def is_over(self) -> bool:
        """Return True if one is better for sure, or no further task could show it."""
        return self._pairs.is_over

    def notices(self) -> Iterator[str]:
        """Say that the policy is not asked."""
        if self._plan.suite.policy is not None:
            yield "--until-better: the policy is not asked, since calls may be left out"

    def describe(self, made: int) -> Better:
        """Return the state of the decision."""
        low, high = self._pairs.bound_difference()
        return Better(
            names=(self._name(0), self._name(1)),
            metric=self._metric.name,
            better=self._pairs.better,
            is_over=self.is_over,
            tasks=self._pairs.seen,
            of=len(self._order),
            after=self._pairs.after,
            difference=Bounds(-high, -low) if self._is_reversed else Bounds(low, high),
            evidence=self._pairs.evidence,
            alpha=self._pairs.alpha,
            seed=self.seed,
            made=made,
            planned=self._plan.calls,
        )

    @property
    def _is_reversed(self) -> bool:
        return self._metric.better == "lower"

    def _name(self, side: int) -> str:
        model, tier = self._plan.name_group(*self._sides[side])
        return (tier or "") if len(self._plan.suite.systems) == 1 else model

    def _helps(self, system: int, tier: int, task: int) -> bool:  # noqa: ARG002 (all of them do)
        return True

    def _see(self, system: int, tier: int, rows: pl.DataFrame) -> None:
        side = self._sides.index((system, tier))
        own = dict(self._bound_values(rows))
        self._values[side] |= own
        one, other = self._values
        new = {task: one[task] for task in own if task in one and task in other}
        self._pairs.take(subtract_bounds(new.items(), other))

    def _bound_values(self, rows: pl.DataFrame) -> Iterator[tuple[int, Bounds | None]]:
        value = 1 - self._value if self._is_reversed else self._value
        for name, low, high in rows.group_by("id").agg(bound_runs(value)).iter_rows():
            yield self._plan.find_task(name), None if low is None else Bounds(low, high)


def _choose_metric(name: str) -> tuple[Metric, pl.Expr]:
    metric = metric_named(name)
    value = find_row_value(metric)
    if value is None or metric.better is None:
        why = NO_MEAN if value is None else "neither higher nor lower values are better"
        fix = "for example --until-better accuracy"
        raise UsageError(f"--until-better {name}: {why}", fix=fix)
    return metric, value


def _choose_sides(plan: CallPlan) -> list[tuple[int, int]]:
    sides = list(product(range(len(plan.suite.systems)), range(len(plan.tiers))))
    if len(sides) != _BOTH:
        words = "prompts" if plan.suite.prompts else "tiers"
        tiers = f" in {len(plan.tiers)} {words}" if plan.suite.conditions else ""
        raise UsageError(
            f"--until-better compares two systems, and the suite has {len(plan.suite.systems)}"
            f"{tiers}",
            fix="leave two in the suite: two systems, or one in two tiers or prompts",
        )
    return sides
