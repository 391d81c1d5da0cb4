"""Check every requirement of a policy against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from calipers.gates.baselines import RecordedGroup
from calipers.gates.composites import composite_check, final_score_check
from calipers.gates.flagged import hold_flagged
from calipers.gates.licences import Licences, judged_in
from calipers.gates.policy import PassCriteria
from calipers.gates.regressions import regression_checks
from calipers.gates.result import Check
from calipers.gates.rule_check import SCENARIOS, Judge
from calipers.gates.rules import FINAL_SCORE, Rule
from calipers.gates.scenarios import optional_check, required_check
from calipers.gates.verdicts import Verdict
from calipers.metrics.judged.who import PASSED
from calipers.scores.results import Measured
from calipers.support.errors import nearest

PASS_RATE = "pass_rate"  # noqa: S105 (no password)


def checks_of(
    judge: Judge,
    *,
    release: str | None = None,
    baseline: RecordedGroup | None = None,
    now: RecordedGroup | None = None,
    clusters: Mapping[str, Any] | None = None,
    settle: Callable[[Iterable[Check]], Iterable[Check]] = iter,
) -> Iterator[Check]:
    """The checks of a group, in the order of the policy, those that only warn last.

    A `baseline` is compared by task with what this run would be recorded as, `now`; `clusters` are
    those of the tasks. `settle` may decide the checks otherwise. What stands on judges' word then
    shows their licence.
    """
    run, policy = judge.run, judge.policy
    licences = Licences(
        judges=run.judges,
        calibrations=run.calibrations,
        demands=policy.judges,
        confidence=run.confidence,
    )
    for check in settle(
        _checks(judge, release=release, baseline=baseline, now=now, clusters=clusters)
    ):
        named = run.named.get(check.name)
        values = judged_in(check, policy)
        if check.source in SCENARIOS and named is not None and named.by_judges:
            values = (PASSED,)
        held = _with_undecided(licences.held(check, values))
        yield hold_flagged(held, run.flagged_behind(check, values), policy.judges.flagged)


def _with_undecided(check: Check) -> Check:
    """Return the check with how much of it is undecided: then it has failed, or is inconclusive."""
    if check.level == "warning" or not check.undecided.count:
        return check
    verdict: Verdict = "fail" if check.verdict == "fail" else "inconclusive"
    said = str(check.undecided)
    reason = said if check.reason is None else f"{check.reason}; {said}"
    return replace(check, verdict=verdict, reason=reason)


def _checks(
    judge: Judge,
    *,
    release: str | None,
    baseline: RecordedGroup | None,
    now: RecordedGroup | None,
    clusters: Mapping[str, Any] | None,
) -> Iterator[Check]:
    policy = judge.policy
    yield from _blocking(policy.thresholds.blocking, judge, "thresholds.blocking")
    yield from _blocking(policy.row(release), judge, "progressive")
    if baseline is not None and now is not None:
        yield from regression_checks(judge, baseline, now, clusters)
    yield from _shares(policy.pass_criteria, judge)
    for scenario in policy.required_scenarios.ids:
        yield required_check(scenario, judge.run, ignores_undecided=policy.undecided == "ignore")
    if policy.composite is not None:
        yield composite_check(policy.composite, judge)
    for rule in policy.thresholds.warning.values():
        yield judge.metric(rule, "warning", "thresholds.warning")
    for scenario in policy.optional_scenarios.ids:
        yield optional_check(scenario, judge.run)


def _blocking(rules: Mapping[str, Rule], judge: Judge, source: str) -> Iterator[Check]:
    for name, rule in rules.items():
        if name == FINAL_SCORE:
            yield final_score_check(rule, judge, source)
        else:
            yield judge.metric(rule, "blocking", source)


def _shares(criteria: PassCriteria, judge: Judge) -> Iterator[Check]:
    """Pass rates, over everything and by category."""
    if criteria.overall is not None:
        everything = judge.run.metrics[PASS_RATE]
        yield judge.measured(
            criteria.overall, everything, "category", "pass_criteria", of=PASS_RATE
        )
    known = judge.run.categories
    for category, rule in criteria.by_category.items():
        share = known.get(category) or _absent(category, known)
        yield judge.measured(
            rule, share, "category", "pass_criteria", of=PASS_RATE, category=category
        )


def _absent(category: str, known: Iterable[str]) -> Measured:
    near = nearest(category, known)
    asked = f": {near}" if near.startswith("did you mean") else ""
    reason = f"no scenario has this category{asked}"
    return Measured(value=None, n=0, missing=0, reason=reason)
