"""One rule applied to one measured value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from calipers.gates.baselines import Recorded, RecordedGroup
from calipers.gates.policy_values import Rule
from calipers.gates.reasons import reason
from calipers.gates.result import Check, Ids, Level
from calipers.gates.undecided import Undecided, choose_worse
from calipers.gates.verdicts import (
    MeasuredValue,
    Verdict,
    bound_further,
    count_further,
    is_thin,
    judge_value,
    widen_bounds,
)
from calipers.metrics.thresholds import Threshold
from calipers.scores.calibration import Calibration
from calipers.scores.results import JudgedBy, Measured
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.gates.policy import Policy

_WORST: tuple[Verdict, ...] = ("pass", "warn", "inconclusive", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRuns:
    """How the runs of one scenario ended; the rest is unknown."""

    runs: int
    passed: int
    failed: int
    errors: int
    by_judges: int = 0  # whose verdict is not recorded, but judges'
    flagged: int = 0  # of these, those whose text seems to address the judge
    lacking: int = 0  # that expectations or judges leave undecided, wholly or by one rubric


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a gate is given beside its policy."""

    release: str | None = None
    recorded: Recorded | None = None  # the baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """What a gate needs to know about a group of records."""

    by: Mapping[str, Any]
    records: int
    errors: int
    scenarios: int
    metrics: Mapping[str, Measured]
    categories: Mapping[str, Measured]  # the pass rate of each
    named: Mapping[str, ScenarioRuns]  # the required and optional ones that are there
    failing: Callable[[str, Threshold, str | None], Ids]  # by metric and, if named, category
    undecided: Callable[[str, str | None], Undecided]  # the same
    latency_budget_ms: float = 5000.0
    confidence: float = 0.95  # of its intervals
    judges: tuple[JudgedBy, ...] = ()  # who made its judged values
    calibrations: tuple[Calibration, ...] = ()
    flagged: Mapping[str, int] = field(default_factory=dict)  # decided by judges, by category
    all_flagged: int = 0  # records with flags, whatever they decide
    now: RecordedGroup | None = None  # what a baseline would keep of it
    clusters: Mapping[str, Any] | None = None  # of its tasks

    def count_flagged(self, values: Collection[str]) -> int:
        """Return how many records with flags there are of the judged value that has most."""
        judged = [each for each in self.judges if each.value in values]
        if any(not each.members for each in judged):
            return self.all_flagged  # too many to be told apart
        by_value: Counter[str] = Counter()
        for each in judged:
            by_value[each.value] += each.flagged
        return max(by_value.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Checks rules against the values of one group, as the policy says."""

    run: MeasuredRun
    policy: Policy
    given: Given = Given()

    @property
    def before(self) -> RecordedGroup | None:
        """Return the group as the baseline has it, if it does."""
        recorded = self.given.recorded
        return None if recorded is None else recorded.group(self.run.by)

    def check_metric(self, rule: Rule, level: Level, source: str) -> Check:
        """Check a metric against its threshold."""
        return self.check_value(rule, self.run.metrics[rule.name], level, source, of=rule.name)

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
            by=self.run.by,
            risk=rule.risk,
            description=rule.description,
        )
        if measured.value is None:
            return replace(check, ran=False, reason=f"no value: {measured.reason}")
        estimate = self._estimate(measured, measured.value)
        if self.policy.evidence == "interval":
            estimate = widen_bounds(rule.threshold, estimate, self.run.confidence)
        verdict = judge_value(rule.threshold, estimate, self.policy.evidence)
        thin = is_thin(rule.threshold, estimate)
        further = between = None
        if thin:
            further = count_further(rule.threshold, estimate, confidence=self.run.confidence)
            between = bound_further(rule.threshold, estimate, confidence=self.run.confidence)
        met = rule.threshold.is_met(measured.value)
        return replace(
            check,
            low=estimate.low,
            high=estimate.high,
            verdict=self.as_asked(verdict, level),
            thin=thin,
            further_scenarios=further,
            further_range=between,
            reason=reason(
                rule.threshold,
                estimate,
                verdict,
                None if between is None or further is None else (between[0], further, between[1]),
                thin=thin,
                confidence=self.run.confidence,
            ),
            failing=Ids() if met or of is None else self.run.failing(of, rule.threshold, category),
        )

    def _estimate(self, measured: Measured, value: float) -> MeasuredValue:
        called = max(1, self.run.records - self.run.errors)
        further = measured.scope is None  # an interval of one task's runs says nothing of others
        return MeasuredValue(
            value=value,
            low=measured.low if further else None,
            high=measured.high if further else None,
            stderr=measured.stderr if further else None,
            worth=measured.worth if further else None,
            scenarios=round(measured.n * self.run.scenarios / called),
            is_share=measured.interval == "wilson",
        )

    def undecided(self, metrics: Iterable[str], category: str | None = None) -> Undecided:
        """Return the most that any of the metrics leaves undecided; may be ignored by policy."""
        if self.policy.undecided == "ignore":
            return Undecided()
        return reduce(
            choose_worse, (self.run.undecided(name, category) for name in metrics), Undecided()
        )

    def as_asked(self, verdict: Verdict, level: Level) -> Verdict:
        """Return a verdict as the policy wants it: a warning never blocks, doubt need not."""
        if verdict == "inconclusive" and self.policy.on_inconclusive != "fail":
            return self.policy.on_inconclusive
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
