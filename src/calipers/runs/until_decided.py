"""A run that ends as soon as its gate is decided.

A check evaluates its tasks in an order drawn beforehand (`in_drawn_order`). A task of no open check
is not called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path

import polars as pl

from calipers.engines.plan import FAILED as CALL_FAILED
from calipers.gates.baselines import RecordedGroup, read_baseline
from calipers.gates.demands import Demand
from calipers.gates.policy import Policy, read_policy
from calipers.gates.result import By, Early
from calipers.gates.rules.baseline import Baseline
from calipers.gates.sequential import CheckSequence, TaskValue
from calipers.runs.in_drawn_order import InDrawnOrder, bound_runs
from calipers.runs.metric_settings import read_options
from calipers.runs.plan import CallPlan
from calipers.runs.preparing import Prepared
from calipers.runs.suite import gate_fields
from calipers.scores.options import Options
from calipers.support.errors import UsageError

_CONFIDENCE = 0.95
_Groups = dict[tuple[int, int], list[CheckSequence]]  # by system and tier


class UntilDecided(InDrawnOrder):
    """Chooses calls that help to decide, and knows when all is decided."""

    def __init__(
        self, plan: CallPlan, policy: Policy, options: Options, by: Sequence[str], seed: int
    ) -> None:
        super().__init__(plan, options, seed)
        self._by = by
        self._groups = _open_sequences(plan, policy, by, self._order)
        names = (name for each in _join(self._groups) for name in each.demand.metrics)
        self._options = replace(options, metrics=tuple(dict.fromkeys(names)))

    def notices(self) -> Iterator[str]:
        """Say which checks need all calls."""
        found = {
            f"{each.demand.name} ({each.why_not})"
            for each in _join(self._groups)
            if each.why_not is not None
        }
        if found:
            yield (
                "only a sure failure can end the run early: all calls are needed for "
                f"{', '.join(sorted(found))}"
            )

    @property
    def can_fail(self) -> bool:
        """Say whether there is anything to decide."""
        return any(self._groups.values())

    @property
    def has_failed(self) -> bool:
        """Say whether it is sure that the gate fails."""
        return any(each.decided == "fail" for each in _join(self._groups))

    @property
    def is_over(self) -> bool:
        """Say whether the verdict is sure."""
        return self.has_failed or all(
            each.decided == "pass" or each.is_all_seen for each in _join(self._groups)
        )

    def describe(self, made: int) -> Early:
        """Return the state of the decision."""
        groups = self._groups
        return Early(
            stopped=self.is_over and made < self._plan.calls,
            made=made,
            planned=self._plan.calls,
            seed=self.seed,
            alpha=1 - _CONFIDENCE,
            shared_by=_count_bets(groups),
            standings={
                _make_key(self._plan, self._by, *at): tuple(each.describe() for each in sequences)
                for at, sequences in groups.items()
            },
        )

    def _helps(self, system: int, tier: int, task: int) -> bool:
        return any(each.is_open_for(task) for each in self._groups[system, tier])

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
        for name, *told in tasks.iter_rows():
            yield self._plan.find_task(name), TaskValue(*told)


def plan_until_decided(of: Prepared, seed: int) -> UntilDecided:
    """Return what chooses the calls of a suite's run; UsageError says why nothing can."""
    suite, base = of.suite, of.base
    if suite.policy is None:
        raise UsageError(
            "--until-decided: the suite has no policy, so there is nothing to decide",
            fix="name one in the suite: policy: policy.yaml",
        )
    policy = read_policy(base / suite.policy)
    by = gate_fields(suite)
    chooser = UntilDecided(of.plan, policy, read_options(suite, base), by, seed)
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

    found = {
        at: [
            (demand, _select_tasks(demand, plan, order))
            for demand in policy.list_demands(recorded(at))
        ]
        for at in product(range(len(plan.suite.systems)), range(len(plan.tiers)))
    }

    def opened(alpha: float) -> _Groups:
        begin = partial(CheckSequence, alpha=alpha, of_these=policy.evidence == "point")
        return {at: [begin(*each) for each in few] for at, few in found.items()}

    return opened((1 - _CONFIDENCE) / max(1, _count_bets(opened(1.0))))


def _join(groups: _Groups) -> Iterator[CheckSequence]:
    return chain.from_iterable(groups.values())


def _count_bets(groups: _Groups) -> int:
    return sum(each.is_a_bet for each in _join(groups))


def _select_tasks(demand: Demand, plan: CallPlan, order: Sequence[int]) -> list[int]:
    """Return the tasks that a check is about, in the order drawn."""
    tasks = plan.tasks.tasks
    if demand.scenario is not None:
        return [at for at in order if str(tasks[at]["id"]) == demand.scenario]
    if demand.category is not None:
        return [at for at in order if str(tasks[at].get("category")) == demand.category]
    return list(order)


def _make_key(plan: CallPlan, by: Sequence[str], system: int, tier: int) -> By:
    fields = dict(zip(("model", "tier"), plan.name_group(system, tier), strict=True))
    return tuple((name, fields[name]) for name in by)
