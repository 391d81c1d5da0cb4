"""Checks based on judgments of flagged answers: texts that seem to address the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from calipers.gates.result import Check
from calipers.gates.verdicts import Verdict

Flagged = Literal["warn", "fail", "ignore"]


def hold_flagged(check: Check, flagged: int, does: Flagged) -> Check:
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
