"""Composites: the formula of the document, and one's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

import calipers as cal
from calipers.gates.result import read_gate
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
        ("precision × 2", "precision has none: no record has predicted and actual"),
    ],
)
def test_a_formula_without_a_value_fails(formula: str, why: str) -> None:
    policy = {"composite": {"formula": formula, "requires": {}}}
    check = only(cal.gate(scenarios(), policy=policy))
    assert (check.verdict, check.value) == ("fail", None)
    assert why in str(check.reason)


def test_the_latency_budget_is_the_policys_unless_another_is_named() -> None:
    policy = {
        "composite": {"formula": "normalized_latency", "threshold": 0.1, "requires": {}},
        "latency_budget_ms": 1000,
    }
    assert only(cal.gate(scenarios(), policy=policy)).value == 0.5
    assert only(cal.gate(scenarios(), policy=policy, latency_budget_ms=2000)).value == 0.25


def test_weighted_metrics() -> None:
    """S 2.3: the mean of metrics, each with its weight."""
    weights = {"accuracy": 1, "safety_rate": 3, "behavior_coverage": 1.5}
    policy = {"composite": {"weights": weights, "at_least": 85}}
    check = only(cal.gate(scenarios(unsafe=1, wrong=10), policy=policy))
    assert check.value == pytest.approx((0.9 + 3 * 0.98 + 1.5) / 5.5, rel=1e-12)
    assert (check.name, check.level, check.verdict) == ("composite", "composite", "pass")
    assert str(check.threshold) == "≥ 85 %"
    assert check.to_dict()["formula"] == (
        "(1 × accuracy + 3 × safety_rate + 1.5 × behavior_coverage) / (1 + 3 + 1.5)"
    )


@pytest.mark.parametrize("at_least", [85, 0.85, "85%", "≥ 0.85"])
@pytest.mark.parametrize(("wrong", "verdict"), [(14, "pass"), (16, "fail")])
def test_a_weighted_score_has_a_mark(at_least: Any, wrong: int, verdict: str) -> None:
    policy = {"composite": {"weights": {"accuracy": 2}, "at_least": at_least}}
    assert only(cal.gate(scenarios(wrong=wrong), policy=policy)).verdict == verdict


@pytest.mark.parametrize("of", [{"weights": {"accuracy": 1}}, {"formula": "accuracy × 2"}])
def test_a_composite_of_ones_own_has_the_name_it_is_given(of: dict[str, Any]) -> None:
    policy = {"composite": {"name": "Größe 01", **of, "threshold": "≥ 0.6"}}
    result = cal.gate(scenarios(), policy=policy)
    check = only(result)
    assert check.name == "Größe 01"
    assert "Größe 01" in str(result)
    assert "final_score" not in str(result.to_dict())
    stored = read_gate(json.loads(result.to_json()))
    assert stored is not None
    assert stored.to_dict() == result.to_dict()


@pytest.mark.parametrize(
    ("composite", "why"),
    [
        ({"weights": {}}, "no mapping from metrics to weights"),
        ({"weights": {"acuracy": 1}}, "no metric is called acuracy"),
        ({"weights": {"accuracy": -1}}, "negative"),
        ({"weights": {"accuracy": 0}}, "sum to 0"),
        ({"weights": {"accuracy": 1}, "formula": "accuracy"}, "say the same"),
        ({"weights": {"accuracy": 1}, "at_least": 85, "threshold": 85}, "say the same"),
        ({"weights": {"accuracy": 1}, "at_least": 0}, "every value"),
        ({"weights": {"accuracy": 1}, "name": "safety_rate"}, "is a metric"),
        ({"name": "trust"}, "the score is final_score"),
    ],
)
def test_what_makes_no_composite_is_refused(composite: dict[str, Any], why: str) -> None:
    with pytest.raises(cal.UsageError, match=why):
        cal.gate(scenarios(), policy={"composite": composite})
