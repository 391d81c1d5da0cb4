"""One rule applied to one measured value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.gates import verdicts
from calipers.gates.baselines import Recorded, RecordedGroup
from calipers.gates.policy_values import Rule
from calipers.gates.result import Check, Level
from calipers.gates.undecided import Undecided, choose_worse
from calipers.gates.verdicts import MeasuredValue, Verdict
from calipers.scores.options import Options
from calipers.scores.results import Group, Measured
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.gates.policy import Policy
    from calipers.gates.scenario_group import ScenarioGroup, ScenarioRuns

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

    @property
    def ran(self) -> bool:
        """Say whether any call came to an end."""
        return self.group.records > self.group.errors

    @cached_property
    def categories(self) -> Mapping[str, Measured]:
        """The pass rate of each."""
        options, correct = self.options, None
        if self.policy.judges.corrected:
            from calipers.scores.correction import correct_part  # noqa: PLC0415 (only where asked for)

            correct = correct_part(self.group.judges, options.licences, options.confidence)
        return self.scenarios.measure_categories(options.confidence, correct)

    @cached_property
    def named(self) -> Mapping[str, ScenarioRuns]:
        """The required and optional scenarios that are there."""
        return self.scenarios.find_runs(self.policy.scenarios)

    @cached_property
    def flagged(self) -> Mapping[str, int]:
        """Runs that judges decided whose text seems to address them, by category."""
        return self.scenarios.count_flagged()

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
        judged = [each for each in self.group.judges if each.value in values]
        if any(not each.members for each in judged):
            return self.group.flagged or 0  # too many to be told apart
        by_value: Counter[str] = Counter()
        for each in judged:
            by_value[each.value] += each.flagged
        return max(by_value.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
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
        if policy.evidence == "interval":
            estimate = verdicts.widen_bounds(on, estimate, confidence)
        verdict = verdicts.judge_value(on, estimate, policy.evidence)
        thin = verdicts.is_thin(on, estimate)
        further = verdicts.find_further(on, estimate, confidence=confidence) if thin else None
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
            reason=verdicts.reason(
                on, estimate, verdict, further, thin=thin, confidence=confidence
            ),
        )

    def _estimate(self, measured: Measured, value: float) -> MeasuredValue:
        group = self.run.group
        called = max(1, group.records - group.errors)
        further = measured.scope is None  # an interval of one task's runs says nothing of others
        return MeasuredValue(
            value=value,
            low=measured.low if further else None,
            high=measured.high if further else None,
            stderr=measured.stderr if further else None,
            worth=measured.worth if further else None,
            scenarios=round(measured.n * self.run.scenarios.count / called),
            is_share=measured.interval == "wilson",
        )

    def undecided(self, metrics: Iterable[str], category: str | None = None) -> Undecided:
        """Return the most that any of the metrics leaves undecided; may be ignored by policy."""
        if self.run.policy.undecided == "ignore":
            return Undecided()
        of_each = (self.run.scenarios.count_undecided(name, category) for name in metrics)
        return choose_worse(Undecided(), *of_each)

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
