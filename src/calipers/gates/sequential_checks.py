"""Checks while a run is in progress: which mean decides each one, and what is certain about it.

A check on a mean of values in [0, 1] is decided by betting on its tasks, one after the other, in an
order drawn beforehand (a test by betting). A quantile meets its threshold if enough rows meet it:
its check is one on a share of rows. The value of a task is the mean of its runs. A run without a
value counts as the threshold itself, which moves the mean to neither side of it. A failed call
counts as the worst value when testing for a pass, and as the best when testing for a fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import polars as pl

from calipers.gates.baselines import RecordedGroup
from calipers.gates.policy_fields import SAFETY, Rule, find_metric, share_scale
from calipers.gates.result import Check, Early, Standing
from calipers.gates.threshold_test import describe_miss
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.metrics.families.scenarios import ADVERSARIAL
from calipers.metrics.provenance import list_judged_parts
from calipers.metrics.thresholds import Threshold
from calipers.statistics.sequential import Bets, Bounds, mean_bounds, sure_bounds

CORRECTED = "decided without the judge's error"
NO_MEAN = "no mean over calls of values between 0 and 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """What is known before a run about how one of its groups will be checked."""

    before: RecordedGroup | None = None  # the baseline's group
    corrected: bool = False  # judged means, without the judge's error


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A check that blocks, and the mean that decides it."""

    name: str
    on: Threshold | None = None  # what the mean has to be
    value: pl.Expr | None = None  # of a measured row
    metrics: tuple[str, ...] = ()  # that have to be measured for it
    category: str | None = None  # the tasks that it is about, where not all
    scenario: str | None = None
    within: str | None = None
    why_not: str | None = None


def make_demand(rule: Rule, *, corrected: bool) -> Demand:
    """Return the mean that decides a threshold of a metric, or why only the whole run can."""
    metric = find_metric(rule.name)
    if corrected and list_judged_parts(metric):
        return Demand(name=metric.name, why_not=CORRECTED)
    measured = (metric.name,)
    if isinstance(metric.aggregate, Rank):
        # A quantile meets the threshold if that share of rows does.
        good = rule.threshold.holds(pl.col(metric.aggregate.feature.name)).cast(pl.Float64)
        share = metric.aggregate.percent / 100
        on = Threshold(operator="≥", value=share, scale=share_scale(metric.name))
        within = str(rule.threshold)
        return Demand(name=metric.name, on=on, value=good, metrics=measured, within=within)
    value = find_row_value(metric)
    if value is None:
        return Demand(name=metric.name, why_not=NO_MEAN)
    return Demand(
        name=metric.name,
        on=rule.threshold,
        value=value,
        metrics=measured,
        category=ADVERSARIAL if metric.name == SAFETY else None,
    )


def find_row_value(metric: Metric) -> pl.Expr | None:
    """Return the value of a measured row, in [0, 1], whose mean the metric is; None without one."""
    feature = metric.averaged
    if not isinstance(feature, Feature):
        feature = None if metric.influence is None else metric.influence.feature
    low, high = metric.range
    if feature is None or low < 0 or high > 1:
        return None
    value = pl.col(feature.name).cast(pl.Float64)
    return 1 - value if metric.complement else value


Decision = Literal["pass", "fail"]

_PART = "based on the tasks that were run"


class TaskValue(NamedTuple):
    """What the value of a task can be, and whether any of its runs has one."""

    least: float
    most: float
    known: bool = True


class CheckSequence:
    """The values of a check's tasks as they come in, and what they decide.

    `tasks` are the tasks of the check, in the order drawn. With `of_these` the mean is over exactly
    these tasks, and known after the last one; otherwise over the population they are drawn from.
    """

    def __init__(
        self, demand: Demand, tasks: Sequence[int], *, alpha: float, of_these: bool
    ) -> None:
        self.demand = demand
        self.decided: Decision | None = None
        self._tasks = tasks
        self._about = frozenset(tasks)
        self._alpha = alpha
        self._came: dict[int, TaskValue] = {}
        self._least: list[float] = []
        self._most: list[float] = []
        self._after: int | None = None
        self._is_known = False
        if demand.on is not None and tasks:
            self._of_these = of_these or demand.on.is_exact
            total = len(tasks) if self._of_these else None
            mark = demand.on.value
            self._above = Bets(mark=mark, alpha=alpha / 2, total=total)
            self._below = Bets(mark=1 - mark, alpha=alpha / 2, total=total)

    @property
    def why_not(self) -> str | None:
        """Return why it cannot be decided before the end, if so."""
        return self.demand.why_not or (
            None if self._tasks else "no task of the suite belongs to it"
        )

    @property
    def is_a_bet(self) -> bool:
        """Return True if it may err; what all tasks or none must do is counted instead."""
        return self.why_not is None and self.demand.on is not None and not self.demand.on.is_exact

    @property
    def is_all_seen(self) -> bool:
        """Return True if no further call can change it; if open, the ordinary interval decides."""
        return self.why_not is None and len(self._least) == len(self._tasks)

    def is_open_for(self, task: int) -> bool:
        """Return True if the task may help to decide it."""
        if self.why_not is not None:
            return True
        return self.decided is None and task in self._about

    def take(self, values: Iterable[tuple[int, TaskValue]]) -> None:
        """Add the values of tasks, given in any order; they count in the order drawn."""
        if self.why_not is not None:
            return
        self._came |= {task: value for task, value in values if task in self._about}
        done = len(self._least)
        new: list[TaskValue] = []
        for task in self._tasks[done:]:
            if task not in self._came:
                break
            new.append(self._came.pop(task))
        if new:
            self._least += (bounds.least for bounds in new)
            self._most += (bounds.most for bounds in new)
            self._is_known = self._is_known or any(bounds.known for bounds in new)
            self._above = self._above.place([bounds.least for bounds in new])
            self._below = self._below.place([1 - bounds.most for bounds in new])
            self._decide()

    def _decide(self) -> None:
        if self.decided is not None:
            return
        won, after = self._decide_by_bets()
        if self._is_known:
            self.decided = self._decide_by_counting() or won
        elif self.is_all_seen and self._least == self._most:  # all were asked, none has a value
            self.decided = "fail"
        if self.decided is not None:
            self._after = after if won == self.decided else len(self._least)

    def _bound_all(self) -> Bounds:
        """Return the bounds of the mean of all tasks, whatever is to come."""
        seen = len(self._least)
        return sure_bounds(self._above.summed, seen - self._below.summed, seen, len(self._tasks))

    def _decide_by_counting(self) -> Decision | None:
        """Return the decision that no value to come can change, if there is one."""
        on = self.demand.on
        assert on is not None
        if not self._of_these:
            return None
        low, high = self._bound_all()
        ends = {on.is_met(low), on.is_met(high)}
        if len(ends) > 1 or (on.operator == "=" and low < on.value < high):
            return None
        return "pass" if True in ends else "fail"

    def _decide_by_bets(self) -> tuple[Decision | None, int | None]:
        """Return the decision of the first bet that was won, and after how many tasks."""
        on = self.demand.on
        assert on is not None
        above, below = self._above.won_after, self._below.won_after
        if on.is_exact or (above is None and below is None):
            return None, None
        is_above = below is None or (above is not None and above < below)
        is_good = is_above == (on.operator in ("≥", ">"))
        return "pass" if is_good else "fail", above if is_above else below

    def describe(self) -> Standing:
        """Return what is certain so far."""
        on = self.demand.on
        if self.why_not is not None or on is None:
            of, why_not = len(self._tasks), self.why_not
            return Standing(name=self.demand.name, decided=None, tasks=0, of=of, why_not=why_not)
        if on.is_exact:
            around = self._bound_all()
        else:
            total = len(self._tasks) if self._of_these else None
            around = mean_bounds(self._least, self._most, total=total, alpha=self._alpha)
        return Standing(
            name=self.demand.name,
            decided=self.decided,
            tasks=len(self._least),
            of=len(self._tasks),
            low=around.low,
            high=around.high,
            after=self._after,
            within=self.demand.within,
        )


def settle_checks(checks: Iterable[Check], early: Early) -> Iterator[Check]:
    """Yield the checks of a group in a run that may end early, each with its standing.

    If the run did end early, a blocking check has the verdict of its confidence sequence: the
    ordinary interval of a part of the run does not allow for repeated looks. A check whose tasks
    were all run and is still open is decided by the ordinary interval.
    """
    all_checks = list(checks)
    standings = iter(early.standings[tuple(all_checks[0].by.items())] if all_checks else ())
    for check in all_checks:
        if check.level == "warning":
            yield check.add_reason(_PART) if early.stopped else check
            continue
        standing = next(standings)
        assert standing.name == check.name
        known = replace(check, sequence=standing)
        yield _apply_standing(known, standing) if early.stopped else known


def _apply_standing(check: Check, standing: Standing) -> Check:
    if standing.decided is None and standing.is_all_seen:
        return check
    is_of_share = standing.within is not None
    check = replace(
        check,
        low=None if is_of_share else standing.low,
        high=None if is_of_share else standing.high,
        thin=False,
        further_scenarios=None,
        further_range=None,
    )
    if standing.decided is None:
        why = standing.why_not or f"undecided after {standing.tasks:,} of {standing.of:,} tasks"
        return replace(
            check, verdict="inconclusive", reason=f"not decided when the run stopped: {why}"
        )
    reason = f"decided after {standing.after:,} of {standing.of:,} tasks"
    if standing.decided == "fail":
        reason = f"{_describe_failure(check)}; {reason}"
    return replace(check, verdict=standing.decided, reason=reason)


def _describe_failure(check: Check) -> str:
    if check.value is None or check.threshold is None or check.level == "required":
        return check.reason or "it failed"
    return describe_miss(check.value, check.threshold)
