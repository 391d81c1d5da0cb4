"""A kind of rule, and the measured run that its checks are made of.

An instance of `RuleKind` is the rule in one policy. Its class names the key in the policy and how
the value is read: a kind is a pydantic model itself, or returns a field (`as_field`). A new kind is
one class in `rules/` and a line in the list of `rules/__init__.py`; schema, checks, early
decisions, judges' licences and reports follow from it. `MeasuredRun` holds what a gate knows about
one group of records, and the rule checker applies one threshold to one measured value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from calipers.gates import threshold_test
from calipers.gates.baselines import Recorded, RecordedGroup
from calipers.gates.policy_fields import Rule, find_metric
from calipers.gates.result import Check, Level
from calipers.gates.threshold_test import MeasuredValue, Verdict
from calipers.gates.undecided import Undecided, choose_worse
from calipers.metrics.provenance import list_judged_parts
from calipers.records.trusted_fields import TrustedFields
from calipers.scores.options import Options
from calipers.scores.result import Group, Measured

if TYPE_CHECKING:
    from pathlib import Path

    from calipers.gates.policy import Policy
    from calipers.gates.scenario_group import ScenarioGroup, ScenarioRuns
    from calipers.gates.sequential_checks import Demand, PlannedGroup
    from calipers.scores.calibration import Correct

_WORST: tuple[Verdict, ...] = ("pass", "warn", "inconclusive", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a gate is given beside its policy."""

    release: str | None = None
    recorded: Recorded | None = None  # the baseline


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """What a gate needs to know about a group of records."""

    group: Group  # of the score
    scenarios: ScenarioGroup
    options: Options  # that it was measured with
    policy: Policy
    own_word: TrustedFields | None = None  # of a run: what a system's own reply may decide

    @property
    def ran(self) -> bool:
        """Return True if any call came to an end."""
        return self.group.records > self.group.errors

    def measure_category(self, category: str) -> Measured | None:
        """Return the pass rate of a category; None where no record is of it."""
        if category not in self.scenarios.categories:
            return None
        confidence, by_task = self.options.confidence, self.options.weight == "task"
        return self.scenarios.measure_category(
            category,
            confidence,
            self._correct,
            by_task=by_task,
            guarantee=self.options.guarantee,
        )

    @cached_property
    def _correct(self) -> Correct | None:
        """What corrects the pass rate of a part for the judges' errors, if asked for."""
        if not self.policy.judges.corrected:
            return None
        from calipers.scores.calibration import correct_part  # noqa: PLC0415 (only where asked for)

        return correct_part(self.group.judges, self.options.licences, self.options.confidence)

    @cached_property
    def named(self) -> Mapping[str, ScenarioRuns]:
        """The required and optional scenarios that are there."""
        return self.scenarios.find_runs(self.policy.scenarios)

    @cached_property
    def clusters(self) -> Mapping[str, Any] | None:
        """The cluster of each task, where there are others than the tasks themselves."""
        return self.scenarios.list_clusters() if self.options.cluster else None

    @cached_property
    def now(self) -> RecordedGroup:
        """What a baseline would keep of it."""
        values = {name: self.group.metrics[name].value for name in self.options.metrics}
        stderrs = {name: self.group.metrics[name].stderr for name in self.options.metrics}
        return RecordedGroup(
            by=self.group.by,
            metrics={n: v for n, v in values.items() if v is not None and isfinite(v)},
            stderrs={n: v for n, v in stderrs.items() if v is not None and isfinite(v)},
            tasks=self.scenarios.measure_tasks(),
            **self.scenarios.list_outcomes(),
        )

    def count_flagged(self, values: Collection[str]) -> int:
        """Return how many records with flags there are of the judged value that has most."""
        judged = [judge for judge in self.group.judges if judge.value in values]
        if any(not judge.members for judge in judged):
            return self.group.flagged or 0  # too many to be told apart
        by_value: Counter[str] = Counter()
        for judge in judged:
            by_value[judge.value] += judge.flagged
        return max(by_value.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChecker:
    """Checks rules against the values of one group, as the policy says."""

    run: MeasuredRun
    given: Given = Given()

    @property
    def before(self) -> RecordedGroup | None:
        """Return the group as the baseline has it, if it does."""
        recorded = self.given.recorded
        return None if recorded is None else recorded.group(self.run.group.by)

    def check_metric(self, rule: Rule, level: Level, source: str) -> Check:
        """Check a metric against its threshold."""
        measured = self.run.group.metrics[rule.name]
        return self.check_value(rule, measured, level, source, of=rule.name)

    def check_value(
        self,
        rule: Rule,
        measured: Measured,
        level: Level,
        source: str,
        *,
        of: str | None,
        category: str | None = None,
    ) -> Check:
        """Check a value `of` a metric against a threshold; a null fails what blocks, or warns."""
        check = Check(
            name=rule.name,
            level=level,
            source=source,
            verdict="warn" if level == "warning" else "fail",
            value=measured.value,
            low=measured.low,
            high=measured.high,
            threshold=rule.threshold,
            n=measured.n,
            missing=measured.missing,
            undecided=self.undecided([] if of is None else [of], category),
            by=self.run.group.by,
            risk=rule.risk,
            description=rule.description,
        )
        if measured.value is None:
            return replace(check, ran=False, reason=f"no value: {measured.reason}")
        policy, on, confidence = self.run.policy, rule.threshold, self.run.options.confidence
        estimate = self._estimate(measured, measured.value)
        if policy.evidence != "point":
            estimate = threshold_test.widen_bounds(on, estimate, confidence)
        verdict = threshold_test.judge_value(on, estimate, policy.evidence)
        thin = threshold_test.is_thin(on, estimate)
        further = threshold_test.find_further(on, estimate, confidence=confidence) if thin else None
        if of is not None and not on.is_met(measured.value):
            check = replace(check, failing=self.run.scenarios.list_failing(of, on, category))
        return replace(
            check,
            low=estimate.low,
            high=estimate.high,
            verdict=self.as_asked(verdict, level),
            thin=thin,
            further_scenarios=further and further[1],
            further_range=further and (further[0], further[2]),
            reason=threshold_test.explain_verdict(
                on, estimate, verdict, further, thin=thin, confidence=confidence
            ),
        )

    def _estimate(self, measured: Measured, value: float) -> MeasuredValue:
        group = self.run.group
        called = max(1, group.records - group.errors)
        further = measured.scope is None  # an interval of one task's runs says nothing of others
        scenarios = round(measured.n * self.run.scenarios.count / called)
        if self.run.options.weight == "task":  # most values are of tasks, not of rows
            scenarios = min(measured.n, self.run.scenarios.count)
        return MeasuredValue(
            value=value,
            low=measured.low if further else None,
            high=measured.high if further else None,
            stderr=measured.stderr if further else None,
            worth=measured.worth if further else None,
            scenarios=scenarios,
            is_share=measured.interval == "wilson",
        )

    def undecided(self, metrics: Iterable[str], category: str | None = None) -> Undecided:
        """Return the most that any of the metrics leaves undecided; may be ignored by policy."""
        policy, scenarios = self.run.policy, self.run.scenarios
        if policy.undecided == "ignore":
            return Undecided()
        names = list(metrics)
        lacking = [
            part
            for name in names
            for part in scenarios.count_lacking(name, category)
            if part.count > policy.find_tolerance(name, part.lacks) * part.of
        ]
        of_each = (scenarios.count_undecided(name, category) for name in names)
        return choose_worse(Undecided(), *of_each, *lacking)

    def as_asked(self, verdict: Verdict, level: Level) -> Verdict:
        """Return a verdict as the policy wants it: a warning never blocks, doubt need not."""
        if verdict == "inconclusive" and self.run.policy.on_inconclusive != "fail":
            return self.run.policy.on_inconclusive
        blocks = verdict in ("fail", "inconclusive")
        return "warn" if blocks and level == "warning" else verdict


def join_checks(check: Check, also: Check) -> Check:
    """Return two parts of one rule as one: the worse verdict, with both reasons."""
    check = replace(check, undecided=choose_worse(check.undecided, also.undecided))
    if also.verdict == "pass":
        return check
    return check.add_reason(
        f"{also.name}: {also.reason}",
        verdict=max(check.verdict, also.verdict, key=_WORST.index),
        failing=check.failing if check.failing.count else also.failing,
    )


class RuleKind(ABC):
    """A kind of rule."""

    key: ClassVar[str]  # in a policy; the `source` of its checks starts with it
    label: ClassVar[str] = ""  # what a table says of its checks, after their level
    may_be_null: ClassVar[bool] = False  # whether `key:` without a value means no such rule
    only_warns: ClassVar[bool] = False  # never blocks: its scenarios may stay undecided

    @classmethod
    def as_field(cls) -> tuple[Any, Any]:
        """Return the type of its key in the policy, and its default: None, for no such rule."""
        if cls.may_be_null:
            return cls | None, None
        return cls, Field(default_factory=lambda: None)  # which the JSON Schema does not show

    @classmethod
    def make_default(cls) -> Self | None:
        """Return the rule that holds where the policy has none, if an option can ask for one."""
        return None

    def check_beside(self, policy: Policy) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse what contradicts another rule of the policy."""

    def move_to(self, _folder: Path) -> Self:
        """Return the rule with the files that it names beside the policy's file."""
        return self

    @property
    def decides(self) -> bool:
        """Return True if it checks anything."""
        return True

    @property
    def needs_baseline(self) -> bool:
        """Return True if it cannot decide without a recorded run, which `judge.before` holds."""
        return False

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return the ids of the scenarios that it names."""
        return ()

    def list_categories(self, _given: Given) -> Iterable[str]:
        """Return the categories that it names, to warn of similar spellings in the records."""
        return ()

    def list_blocking(self, _given: Given) -> Iterable[str]:
        """Return the metrics over all records whose values it requires."""
        return ()

    @abstractmethod
    def list_metrics(self, given: Given) -> Iterable[str]:
        """Return the metrics that have to be measured for its checks."""

    @abstractmethod
    def list_checks(self, judge: RuleChecker) -> Iterator[Check]:
        """Yield its checks of a group of records."""

    @abstractmethod
    def list_demands(self, ahead: PlannedGroup) -> Iterator[Demand]:
        """Yield, for each blocking check in order, the mean that decides it while calls come in."""

    def list_measures(self, check: Check, given: Given) -> tuple[str, ...]:
        """Return the metrics behind a check: the one it is named after, or all of the rule's."""
        names = tuple(self.list_metrics(given))
        return (check.name,) if check.name in names else names

    def list_judged_values(self, check: Check, judge: RuleChecker) -> tuple[str, ...]:
        """Return the judged values behind a check: those of which its metrics are made."""
        return list_judged(self.list_measures(check, judge.given))

    def count_flagged(self, check: Check, judge: RuleChecker) -> int:
        """Return how many judged answers behind a check seem to address the judge."""
        return judge.run.count_flagged(self.list_judged_values(check, judge))


def list_judged(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the judged values that metrics may be based on."""
    judged_parts = (
        judged_part for name in metrics for judged_part in list_judged_parts(find_metric(name))
    )
    return tuple(dict.fromkeys(judged_parts))
