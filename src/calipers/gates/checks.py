"""Check every rule of a policy against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from calipers.gates.flagged import hold_flagged
from calipers.gates.licences import Licences
from calipers.gates.result import Check
from calipers.gates.rule_check import Judge
from calipers.gates.verdicts import Verdict


def check_rules(
    judge: Judge, settle: Callable[[Iterable[Check]], Iterable[Check]] = iter
) -> Iterator[Check]:
    """Yield the checks of a group, in the order of the rules, those that only warn last.

    `settle` may decide the checks otherwise. What stands on judges' word then shows their licence.
    """
    run, policy = judge.run, judge.policy
    licences = Licences(
        judges=run.judges,
        calibrations=run.calibrations,
        demands=policy.judges,
        confidence=run.confidence,
    )
    found = [(rule, check) for rule in policy.rules for check in rule.list_checks(judge)]
    found.sort(key=lambda each: each[1].level == "warning")
    settled = settle(check for _, check in found)
    for (rule, _), check in zip(found, settled, strict=True):
        held = _with_undecided(licences.apply(check, rule.list_judged_values(check, run)))
        yield hold_flagged(held, rule.count_flagged(check, run), policy.judges.flagged)


def _with_undecided(check: Check) -> Check:
    """Return the check with how much of it is undecided: then it has failed, or is inconclusive."""
    if check.level == "warning" or not check.undecided.count:
        return check
    verdict: Verdict = "fail" if check.verdict == "fail" else "inconclusive"
    return check.add_reason(str(check.undecided), verdict=verdict)
