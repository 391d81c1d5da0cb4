"""The verdict on several runs of one test, decided as a gate decides."""

from __future__ import annotations

from calipers.gates.api import gate
from calipers.gates.result import Check
from calipers.gates.verdicts import describe_doubt, format_value


def decide_runs(passed: int, runs: int, at_least: float, evidence: str) -> tuple[bool, str]:
    """Compare the share of runs that passed with the share that must pass, and say it in a line.

    >>> decide_runs(40, 40, 0.8, "interval")
    (True, 'passed in 40 of 40 runs: 100 % [91.2 %, 100 %], required ≥ 80 %; passes')
    """
    records = [{"id": f"run {number}", "passed": number < passed} for number in range(runs)]
    policy = {
        "evidence": evidence,
        "thresholds": {"blocking": {"pass_rate": f">= {float(at_least)}"}},
    }
    check = gate(records, policy=policy).checks[0]
    return check.verdict == "pass", f"passed in {passed} of {runs} runs: {_describe_check(check)}"


def _describe_check(check: Check) -> str:
    assert check.threshold is not None
    assert check.value is not None
    scale = check.threshold.scale
    bounds = (format_value(each, scale) for each in (check.low, check.high) if each is not None)
    value = format_value(check.value, scale, check.threshold)
    verdict = {"pass": "passes", "fail": "fails"}.get(check.verdict, check.verdict)
    said = f"{value} [{', '.join(bounds)}], required {check.threshold}; {verdict}"
    if not check.thin:
        return said
    between, likely = check.further_range, check.further_scenarios
    further = None if between is None or likely is None else (between[0], likely, between[1])
    return f"{said}; {describe_doubt(further, thin=True, confidence=0.95, of='run')}"
