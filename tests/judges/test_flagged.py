"""Flags of judgments count: in score, gate, audit, and in both engines."""

from __future__ import annotations

from typing import Any

import pytest

import calipers
from tests.engines_at_hand import ENGINES_AT_LENGTH

FLAG = ["asks_for_score in answer: score 5"]


def record(number: int, *, flagged: bool, **more: Any) -> dict[str, Any]:
    judgment = {"judge": "a", "passed": True, "weighted_score": 0.9, "reason": '"flags": ["no"]'}
    judgment |= {"flags": FLAG if flagged else []}
    category = "adversarial" if number < 5 else "plain"
    return {"id": f"t{number}", "category": category, "judgments": [judgment], **more}


RECORDS = [record(n, flagged=n < 2) for n in range(10)]
POLICY = {
    "thresholds": {"blocking": {"pass_rate": "≥ 50%"}, "warning": {"impl_rate": "≥ 50%"}},
    "pass_criteria": {"by_category": {"plain": "≥ 50%", "adversarial": "≥ 50%"}},
    "required_scenarios": {"ids": ["t0", "t9"]},
}


def gate(records: list[dict[str, Any]], **judges: str) -> calipers.GateResult:
    return calipers.gate(records, policy={**POLICY, "judges": {"people": ["a"], **judges}})


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_score_counts_flagged_records(engine: Any) -> None:
    score = calipers.score(RECORDS, metrics=["pass_rate"], engine=engine)
    assert score.groups[0].flagged == score.to_dict()["groups"][0]["flagged"] == 2
    assert any(note.startswith("2 of 10 judged records hold text") for note in score.notices)


def test_records_without_judgments_have_no_count() -> None:
    score = calipers.score([{"id": "a", "passed": True}], metrics=["pass_rate"])
    assert "flagged" not in score.to_dict()["groups"][0]


@pytest.mark.parametrize(
    ("does", "verdict", "of_flagged"),
    [("warn", "pass", "warn"), ("fail", "fail", "fail"), ("ignore", "pass", "pass")],
)
def test_a_gate_does_with_flagged_answers_as_the_policy_says(
    does: str, verdict: str, of_flagged: str
) -> None:
    result = gate(RECORDS, flagged=does)
    assert result.verdict == verdict
    checks = {check.name: check for check in result.checks}
    assert {name: check.flagged for name, check in checks.items()} == {
        "pass_rate": 2, "plain": 0, "adversarial": 2, "t0": 1, "t9": 0, "impl_rate": 2
    }  # fmt: skip
    assert [checks[name].verdict for name in ("plain", "t9")] == ["pass", "pass"]
    assert [checks[name].verdict for name in ("pass_rate", "adversarial", "t0")] == [of_flagged] * 3
    assert checks["impl_rate"].verdict == ("pass" if does == "ignore" else "warn")
    found = result.to_dict()
    assert found["flagged"] == 2
    assert found["checks"][0]["flagged"] == 2
    if does != "ignore":
        assert "2 judged answers seem to address the judge" in str(checks["pass_rate"].reason)
        assert "flagged: 2 judged answers" in " ".join(str(result).split())


def test_flagged_answers_never_fail_a_check_that_only_warns() -> None:
    policy = {"thresholds": {"warning": {"pass_rate": "≥ 50%"}}}
    judges = {"people": ["a"], "flagged": "fail"}
    result = calipers.gate(RECORDS, policy={**policy, "judges": judges})
    [check] = result.checks
    assert (check.flagged, check.verdict, result.verdict) == (2, "warn", "pass")


def test_a_recorded_verdict_does_not_rest_on_flags() -> None:
    records = [record(n, flagged=n < 2, passed=True, impl_rate=0.9) for n in range(10)]
    result = gate(records, flagged="fail")
    assert result.verdict == "pass"
    assert all(check.flagged == 0 for check in result.checks)


def test_an_audit_counts_flags() -> None:
    audit = calipers.audit_judges(RECORDS)
    assert audit.groups[0].flagged == audit.groups[0].judges[0].flagged == 2
    found = audit.to_dict()["groups"][0]
    assert (found["flagged"], found["judges"][0]["flagged"]) == (2, 2)
    assert "2 records flagged" in str(audit)


def test_an_unknown_word_for_flagged_is_a_mistake() -> None:
    with pytest.raises(calipers.UsageError, match="flagged"):
        gate(RECORDS, flagged="maybe")
