"""Check every rule of a policy against what was measured.

A check may rest on judgments of flagged answers: texts that seem to address the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal

from calipers.gates.licences import Licences
from calipers.gates.result import Check
from calipers.gates.rule_check import Judge
from calipers.gates.verdicts import Verdict

Flagged = Literal["warn", "fail", "ignore"]


def check_rules(
    judge: Judge, settle: Callable[[Iterable[Check]], Iterable[Check]] = iter
) -> Iterator[Check]:
    """Yield the checks of a group, in the order of the rules, those that only warn last.

    `settle` may change verdicts, as for a run that ended early. Checks that rely on judges then
    show the licence.
    """
    run, policy = judge.run, judge.run.policy
    licences = Licences(
        judges=run.group.judges,
        calibrations=run.options.licences,
        demands=policy.judges,
        confidence=run.options.confidence,
    )
    found = [(rule, check) for rule in policy.rules for check in rule.list_checks(judge)]
    found.sort(key=lambda each: each[1].level == "warning")
    settled = settle(check for _, check in found)
    for (rule, _), check in zip(found, settled, strict=True):
        held = _with_undecided(licences.apply(check, rule.list_judged_values(check, run)))
        yield _hold_flagged(held, rule.count_flagged(check, run), policy.judges.flagged)


def _with_undecided(check: Check) -> Check:
    """Return the check with how much of it is undecided: then it has failed, or is inconclusive."""
    if check.level == "warning" or not check.undecided.count:
        return check
    verdict: Verdict = "fail" if check.verdict == "fail" else "inconclusive"
    return check.add_reason(str(check.undecided), verdict=verdict)


def _hold_flagged(check: Check, flagged: int, does: Flagged) -> Check:
    """Return the check with the number of flagged answers behind it, and what the policy does.

    A check that only warns never fails; one that failed already does not get better.
    """
    if not flagged:
        return check
    check = replace(check, flagged=flagged)
    if does == "ignore":
        return check
    verdict: Verdict = "warn" if check.verdict == "pass" else check.verdict
    if does == "fail" and check.level != "warning":
        verdict = "fail"
    answers = "1 judged answer seems" if flagged == 1 else f"{flagged:,} judged answers seem"
    return check.add_reason(f"flagged: {answers} to address the judge", verdict=verdict)


def note_flagged(checks: Iterable[Check], does: Flagged) -> Iterator[str]:
    """Say what to do about flagged answers, if a check is based on some."""
    if any(check.flagged for check in checks) and does == "warn":
        yield (
            "flagged answers: judgments[].flags says what was found; judges: {flagged: fail} in "
            "the policy fails such checks, {flagged: ignore} lets them pass"
        )
