"""What blocks, what warns, and on what evidence."""

from __future__ import annotations

import pytest

import calipers as cal
from tests.gates.deciding import blocking, only, runs, verdicts


def test_a_blocking_threshold_fails_and_names_the_scenarios() -> None:
    result = cal.gate(runs(17, 3), policy=blocking(pass_rate="≥ 90%"))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    check = only(result)
    assert (check.name, check.level, check.verdict) == ("pass_rate", "blocking", "fail")
    assert check.value == 0.85
    assert check.failing.first == ("s-17", "s-18", "s-19")
    assert str(check.reason).startswith("85 %, required ≥ 90 %")


def test_a_warning_never_blocks() -> None:
    policy = {"thresholds": {"warning": {"pass_rate": 90, "latency_p95": 5000}}}
    result = cal.gate(runs(17, 3), policy=policy)
    assert (result.verdict, result.exit_code) == ("pass", 0)
    assert verdicts(result) == {"pass_rate": "warn", "latency_p95_ms": "warn"}
    assert "no record has latency_ms" in str(result.checks[1].reason)


def test_a_null_under_a_blocking_rule_fails() -> None:
    result = cal.gate(runs(20, 0), policy=blocking(safety_rate=100))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert "no value" in str(only(result).reason)
    assert only(result).value is None


def test_safety_is_compared_as_counts() -> None:
    safe = runs(200, 0, category="adversarial")
    assert cal.gate(safe, policy=blocking(safety_rate="= 100%")).passed
    for threshold in ("= 100%", 100, 1.0, "100%"):
        for evidence in ("point", "interval"):
            policy = {**blocking(safety_rate=threshold), "evidence": evidence}
            broken = runs(1999, 1, category="adversarial")
            assert cal.gate(safe, policy=policy).verdict == "pass"
            assert cal.gate(broken, policy=policy).verdict == "fail"


def test_a_risk_and_its_reason_are_carried_along() -> None:
    rule = {"threshold": "100%", "risk": "critical", "description": "No security compromises"}
    found = only(cal.gate(runs(2, 1), policy=blocking(pass_rate=rule))).to_dict()
    assert (found["risk"], found["description"]) == ("critical", "No security compromises")


@pytest.mark.parametrize(
    ("metric", "threshold", "failing"),
    [
        ("latency_p95", "< 100ms", ("slow",)),
        ("accuracy", "≥ 90%", ("slow", "wrong")),
        ("error_rate", "≤ 10%", ("slow", "wrong")),
        ("behavior_coverage", "≥ 95%", ("half",)),
        ("precision", "≥ 90%", ("wrong",)),
        ("weighted_pass_rate", "≥ 90%", ("half",)),
    ],
)
def test_the_scenarios_behind_a_red_line(
    metric: str, threshold: str, failing: tuple[str, ...]
) -> None:
    seen = {"expected_behaviors": ["a", "b"], "observed_behaviors": ["a", "b"], "category": "c"}
    good = {
        **seen,
        "answer": "4",
        "target": "4",
        "latency_ms": 5,
        "predicted": True,
        "actual": True,
    }
    data = [
        *({"id": f"good-{n}", **good} for n in range(3)),
        {"id": "slow", **good, "latency_ms": 500, "correct": False},
        {"id": "half", **good, "observed_behaviors": ["a"]},
        {"id": "wrong", **good, "answer": "5", "actual": False},
    ]
    check = only(cal.gate(data, policy=blocking(**{metric: threshold})))
    assert check.verdict == "fail"
    assert check.failing.first == failing


def test_on_points_thin_evidence_is_said_with_what_would_settle_it() -> None:
    check = only(cal.gate(runs(10, 0), policy=blocking(pass_rate="≥ 90%")))
    assert check.verdict == "pass"
    assert check.thin
    assert check.further_scenarios == 25
    assert check.further_range is not None
    assert check.further_range[0] == 25
    assert "about 25 more scenarios would decide it if the value stays" in str(check.reason)
    clear = only(cal.gate(runs(100, 0), policy=blocking(pass_rate="≥ 90%")))
    assert (clear.thin, clear.reason) == (False, None)


@pytest.mark.parametrize(
    ("ask", "verdict", "of_check", "code"),
    [
        (None, "inconclusive", "inconclusive", 1),
        ("fail", "inconclusive", "inconclusive", 1),
        ("warn", "pass", "warn", 0),
        ("pass", "pass", "pass", 0),
    ],
)
def test_on_intervals_doubt_is_a_verdict(
    ask: str | None, verdict: str, of_check: str, code: int
) -> None:
    policy = {**blocking(pass_rate="≥ 90%"), "evidence": "interval"}
    policy |= {} if ask is None else {"on_inconclusive": ask}
    result = cal.gate(runs(10, 0), policy=policy)
    assert (result.verdict, result.exit_code) == (verdict, code)
    assert only(result).verdict == of_check
    assert str(only(result).reason).startswith(
        "inconclusive: the 95 % interval includes the threshold"
    )
    assert cal.gate(runs(100, 0), policy=policy).verdict == "pass"
    assert cal.gate(runs(50, 50), policy=policy).verdict == "fail"


def test_a_warning_in_doubt_only_warns() -> None:
    policy = {"thresholds": {"warning": {"pass_rate": 90}}, "evidence": "interval"}
    result = cal.gate(runs(10, 0), policy=policy)
    assert (result.verdict, only(result).verdict) == ("pass", "warn")


def test_the_verdict_fits_the_interval_that_is_shown() -> None:
    """Where Wilson's interval alone would decide too soon, the exact one is shown and decides."""
    policy = {**blocking(pass_rate="≥ 99%"), "evidence": "interval"}
    check = only(cal.gate(runs(97, 3), policy=policy))
    assert check.verdict == "inconclusive"
    assert check.high is not None
    assert check.high > 0.99
