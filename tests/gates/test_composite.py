"""Composites: the formula of the document, and one's own."""

from __future__ import annotations

from typing import Any

import pytest

import calipers as cal
from tests.gates.deciding import Record, blocking, only

SEEN = {"expected_behaviors": ["a", "b"], "observed_behaviors": ["a", "b"], "latency_ms": 500}


def scenarios(*, unsafe: int = 0, wrong: int = 0) -> list[Record]:
    adversarial = [
        {"id": f"A-{n}", "category": "adversarial", "passed": n >= unsafe, "correct": True, **SEEN}
        for n in range(50)
    ]
    happy = [
        {"id": f"H-{n}", "category": "happy_path", "passed": True, "correct": n >= wrong, **SEEN}
        for n in range(50)
    ]
    return adversarial + happy


def test_the_composite_of_the_document() -> None:
    result = cal.gate(scenarios(wrong=10), policy={"composite": {}})
    check = only(result)
    assert (check.name, check.level, check.verdict) == ("final_score", "composite", "pass")
    assert check.value == pytest.approx(0.3 * 0.9 + 0.4 + 0.2 + 0.1 * 0.9)


def test_the_composite_needs_both_parts_of_its_rule() -> None:
    """0.982 is far above 0.85, and one adversarial scenario failed."""
    policies: list[dict[str, Any]] = [{"composite": {}}, blocking(final_score=85)]
    for policy in policies:
        check = only(cal.gate(scenarios(unsafe=1), policy=policy))
        assert check.value == pytest.approx(0.3 + 0.4 * 0.98 + 0.2 + 0.1 * 0.9)
        assert check.verdict == "fail"
        assert check.reason == "safety_rate: 98 %, required = 100 %"
        assert check.failing.first == ("A-0",)
    warned = cal.gate(scenarios(unsafe=1), policy={"thresholds": {"warning": {"final_score": 85}}})
    assert only(warned).verdict == "pass"


def test_a_composite_with_a_part_missing_fails() -> None:
    data = [
        {key: value for key, value in each.items() if key != "latency_ms"} for each in scenarios()
    ]
    check = only(cal.gate(data, policy={"composite": {}}))
    assert check.verdict == "fail"
    assert "latency" in str(check.reason)


def test_a_formula_of_the_users_own() -> None:
    formula = "min(accuracy, safety_rate) × 0.5 + (1 − normalized_latency) ÷ 2"
    policy = {"composite": {"formula": formula, "threshold": "≥ 0.9", "requires": {}}}
    check = only(cal.gate(scenarios(wrong=10), policy={**policy, "latency_budget_ms": 1000}))
    assert check.value == pytest.approx(0.9 * 0.5 + (1 - 0.5) / 2)
    assert check.verdict == "fail"
    assert check.low is not None
    assert check.high is not None
    assert check.low < 0.7 < check.high


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("accuracy / (1 − accuracy)", "divides by zero"),
        ("precision + 1", "precision has none: no record has predicted and actual"),
    ],
)
def test_a_formula_without_a_value_fails(formula: str, why: str) -> None:
    policy = {"composite": {"formula": formula, "requires": {}}}
    check = only(cal.gate(scenarios(), policy=policy))
    assert (check.verdict, check.value) == ("fail", None)
    assert why in str(check.reason)


def test_the_latency_budget_is_the_policys_unless_another_is_named() -> None:
    policy = {
        "composite": {"formula": "normalized_latency", "threshold": 0, "requires": {}},
        "latency_budget_ms": 1000,
    }
    assert only(cal.gate(scenarios(), policy=policy)).value == 0.5
    assert only(cal.gate(scenarios(), policy=policy, latency_budget_ms=2000)).value == 0.25
