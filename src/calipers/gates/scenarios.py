"""Single scenarios: those that have to pass, and those whose failure is only worth a look."""

from __future__ import annotations

from calipers.gates.result import Check, Ids
from calipers.gates.rule_check import MeasuredRun, ScenarioRuns
from calipers.gates.rules import share_scale
from calipers.gates.undecided import Undecided
from calipers.metrics.thresholds import Threshold


def required_check(scenario: str, run: MeasuredRun, *, ignores_undecided: bool = False) -> Check:
    """It has to be there, and to have passed in all its runs."""
    missed, value = _outcome(run.named.get(scenario))
    n, missing = _counts(run.named.get(scenario))
    return Check(
        name=scenario,
        level="required",
        source="required_scenarios",
        verdict="pass" if missed is None else "fail",
        value=value,
        threshold=Threshold(operator="=", value=1.0, scale=share_scale(scenario)),
        reason=missed,
        n=n,
        missing=missing,
        undecided=Undecided() if ignores_undecided else _undecided(run.named.get(scenario)),
        by=run.by,
        ran=value is not None,
        failing=Ids() if missed is None else Ids(1, (scenario,)),
    )


def optional_check(scenario: str, run: MeasuredRun) -> Check:
    """It counts in the scores and never blocks."""
    missed, value = _outcome(run.named.get(scenario))
    n, missing = _counts(run.named.get(scenario))
    return Check(
        name=scenario,
        level="warning",
        source="optional_scenarios",
        verdict="pass" if missed is None else "warn",
        value=value,
        threshold=Threshold(operator="=", value=1.0, scale=share_scale(scenario)),
        reason=missed,
        n=n,
        missing=missing,
        by=run.by,
        ran=value is not None,
    )


def _counts(found: ScenarioRuns | None) -> tuple[int, int]:
    """How many runs are known to pass or fail, and of how many that is unknown."""
    if found is None:
        return 0, 0
    known = found.passed + found.failed
    return known, found.runs - known


def _undecided(found: ScenarioRuns | None) -> Undecided:
    """Runs that expectations or judges were to decide and did not, whatever their answer."""
    if found is None:
        return Undecided()
    return Undecided(found.lacking, found.runs - found.errors)


def _outcome(found: ScenarioRuns | None) -> tuple[str | None, float | None]:
    """Why it did not pass in all its runs, and the share of those that ran that did."""
    if found is None:
        return "not among the records", None
    ran = found.runs - found.errors
    unknown = ran - found.passed - found.failed
    counts = {"failed": found.failed, "did not run": found.errors, "gave no verdict": unknown}
    if found.runs == 1:
        said = [f"it {what}" for what, count in counts.items() if count]
    else:
        said = [f"{count} of {found.runs} runs {what}" for what, count in counts.items() if count]
    return " and ".join(said) or None, found.passed / ran if ran else None
