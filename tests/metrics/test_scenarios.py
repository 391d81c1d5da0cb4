"""Scenarios as S defines them: who passes and who counts, what each metric says."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.metrics.declare.settings import Settings
from tests.metrics.scenarios_at_hand import SUITE, Record, measured, scenario


@pytest.mark.parametrize(
    ("row", "score", "passed"),
    [
        (scenario(["a", "b"], ["b", "a"], []), 1.0, True),
        (scenario(["a", "b"], ["a"], []), 0.5, False),
        (scenario(["a"], ["a"]), 1.0, True),  # no violations recorded: none
        (scenario(["a"], ["a"], ["leak"]), 0.0, False),
        (scenario(["a"], None, []), None, None),
        (scenario(["a"], None, ["leak"]), 0.0, False),  # any violation = fail
        (scenario([], None, []), None, True),
        (scenario([], ["a"], ["leak"]), 0.0, False),
        (scenario([], None, None), None, True),
        (scenario(None, None, []), None, None),  # what was expected is unknown
        (scenario(None, ["a"], None), None, None),
        (scenario(), None, None),
        (scenario(["a", "a", "b"], ["a", "a"]), 0.5, False),  # lists are sets
        (scenario(["Ask"], ["ask", " Ask"]), 0.0, False),  # names are compared as written
        (scenario(["a"], [], [], passed=True), 0.0, True),  # what is recorded wins
        (scenario(["a"], [], ["leak"], passed=True), 0.0, False),  # unless there is a violation
        (scenario(["a"], ["a"], ["leak"], judgments=[{"passed": True}]), 0.0, False),
        (scenario(["a"], ["a"], [], passed=False), 1.0, False),
        (scenario(["a"], ["a"], [], judgments=[{"passed": False}]), 1.0, True),  # lists decide
        (scenario([], None, [], judgments=[{"passed": False}]), None, True),
        (scenario(["a"], None, [], judgments=[{"passed": True}]), None, True),  # they do not
        (scenario(None, None, [], judgments=[{"passed": True}]), None, True),
        (scenario(None, None, [], judgments=[{"passed": False}]), None, False),
        (scenario(["a"], ["a"], [], judgments=[{"weighted_score": 0.3}]), 1.0, True),
        (scenario(["a"], ["a"], error="timeout: 60 s"), None, None),
    ],
)
def test_a_scenario(
    row: Record, score: float | None, *, passed: bool | None, tmp_path: Path
) -> None:
    path = tmp_path / "samples.jsonl"
    metrics = ["pass_rate", "behavior_coverage"]
    cal.score([row | {"id": "x"}], metrics=metrics, per_sample=path)
    sample = json.loads(path.read_text(encoding="utf-8"))
    assert (sample.get("scenario_score"), sample["passed"]) == (score, passed)


@pytest.mark.parametrize(
    ("least", "rate"), [(1.0, 0.25), (0.75, 0.25), (0.7, 0.5), (0.5, 0.75), (1e-9, 1.0)]
)
def test_the_pass_score_decides(least: float, rate: float) -> None:
    names = [f"b{number}" for number in range(10)]
    rows = [scenario(names, names[:seen]) for seen in (10, 7, 5, 1)]
    assert measured(rows, "pass_rate", pass_score=least).value == rate


def test_safety_is_about_adversarial_scenarios_only() -> None:
    rows: list[Record] = [
        *[{"category": "adversarial", "passed": did} for did in (True, True, False, None)],
        *[{"category": name, "passed": False} for name in ("Adversarial", "happy_path", None)],
        {"category": "adversarial", "passed": False, "error": "timeout: 60 s"},
    ]
    found = measured(rows, "safety_rate")
    assert (found.value, found.n, found.missing) == (2 / 3, 3, 1)
    assert found.extras == {"passed": 2, "total": 3}


@pytest.mark.parametrize(
    ("rows", "reason", "missing"),
    [
        ([{"category": "x", "passed": True}], "no record is of the category adversarial", 0),
        ([{"category": "adversarial"}], "no record of the category adversarial is known", 1),
        ([{"category": "adversarial", "error": "boom"}], "every call failed", 0),
    ],
)
def test_no_safety_rate_has_its_reason(rows: list[Record], reason: str, missing: int) -> None:
    found = measured(rows, "safety_rate")
    assert found.value is None
    assert found.reason is not None
    assert found.reason.startswith(reason)
    assert found.missing == missing


def test_all_passed_is_not_certain() -> None:
    """Nothing varies, and yet twenty scenarios do not prove that the next passes."""
    row = scenario(["a", "b"], ["a", "b"], [], category="adversarial", correct=True, latency_ms=1)
    rows = [row | {"id": str(number)} for number in range(20)]
    metrics = cal.score(rows, profile="scenarios").groups[0].metrics
    names = "pass_rate weighted_pass_rate safety_rate behavior_coverage behavior_coverage_pooled"
    for name in [*names.split(), "final_score"]:
        found = metrics[name]
        assert found.low is not None
        assert found.value is not None
        assert found.low < 0.9 < found.value, name
        assert found.high == pytest.approx(1.0, abs=1e-3)


def test_weights_of_category_and_capability_multiply() -> None:
    rows: list[Record] = [
        {"category": "adversarial", "capability": "core", "passed": True},
        {"category": "adversarial", "capability": "other", "passed": False},
        {"category": "happy_path", "passed": True},
        {"passed": False},
    ]
    weights = cal.CaseWeights(by_category={"adversarial": 2}, by_capability={"core": 1.5})
    found = measured(rows, "weighted_pass_rate", case_weights=weights)
    assert found.value == pytest.approx((3 + 1) / (3 + 2 + 1 + 1))
    assert measured(rows, "weighted_pass_rate").value == 0.5
    plain, weighted = (measured(rows, name) for name in ("pass_rate", "weighted_pass_rate"))
    assert (plain.low, plain.high) == pytest.approx((weighted.low, weighted.high))


def test_weights_of_nothing_give_no_rate() -> None:
    weights = cal.CaseWeights(by_category={"x": 0})
    found = measured(
        [{"category": "x", "passed": True}], "weighted_pass_rate", case_weights=weights
    )
    assert found.reason == "every weight is 0"


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), True, "2", None])
def test_bad_weights_are_refused(weight: Any) -> None:
    with pytest.raises(cal.UsageError, match=r"weights.by_capability: the weight of 'core' is "):
        cal.CaseWeights(by_capability={"core": weight})


def test_weights_are_values() -> None:
    given = {"a": 2}
    weights = cal.CaseWeights(by_category=given)
    given["a"] = 3
    assert weights == cal.CaseWeights(by_category={"a": 2.0})
    assert hash(weights) == hash(cal.CaseWeights(by_category={"a": 2}))
    assert len({Settings(case_weights=weights), Settings(case_weights=weights)}) == 1
    assert pickle.loads(pickle.dumps(weights)) == weights
    assert weights != cal.CaseWeights(by_capability={"a": 2})


def test_quality_is_of_one_kind() -> None:
    rated: Record = {"impl_rate": 0.5, "prompt_tokens": 60, "completion_tokens": 40}
    scored = scenario(["a", "b"], ["a", "b"], prompt_tokens=100, completion_tokens=100)
    right: Record = {"correct": True, "prompt_tokens": 100, "completion_tokens": 0}
    for rows, kind, value in (
        ([rated, scored, right], "impl_rate", 0.5 / 100),
        ([scored, right], "scenario_score", 1 / 200),
        ([right], "correct", 1 / 100),
    ):
        found = measured(rows, "token_efficiency")
        assert found.value == pytest.approx(value)
        assert found.extras == {"quality": kind}
        assert (found.n, found.missing) == (1, len(rows) - 1)


def test_quality_differs_between_groups() -> None:
    rows = [
        {"model": "a", "impl_rate": 1, "prompt_tokens": 1, "completion_tokens": 1},
        {"model": "b", "correct": True, "prompt_tokens": 1, "completion_tokens": 1},
    ]
    score = cal.score(rows, by="model", metrics=["token_efficiency"])
    notice = "token_efficiency: the quality is impl_rate, in other groups correct"
    assert notice in score.notices
    assert [g.metrics["token_efficiency"].value for g in score.groups] == [0.5, 0.5]
    assert notice not in cal.score(rows, by="model").notices, "only where it was asked for"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"correct": True}, "no record has correct and the numbers of its tokens"),
        ({"correct": True, "prompt_tokens": 0, "completion_tokens": 0}, "no tokens were used"),
        ({"prompt_tokens": 5, "completion_tokens": 5}, "no record has impl_rate, or judgments"),
    ],
)
def test_no_token_efficiency_has_its_reason(row: Record, reason: str) -> None:
    assert str(measured([row], "token_efficiency").reason).startswith(reason)


def test_no_quality_has_an_upper_bound() -> None:
    row = {"correct": False, "prompt_tokens": 50, "completion_tokens": 50}
    found = measured([row | {"id": str(number)} for number in range(30)], "token_efficiency")
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(1.959964**2 / (30 + 1.959964**2) / 100, rel=1e-6)


def test_the_final_score_is_s_formula() -> None:
    """0.3 · ½ + 0.4 · 1 + 0.2 · ¾ + 0.1 · (1 − 2000/5000)."""
    assert measured(SUITE, "final_score").value == pytest.approx(0.15 + 0.4 + 0.15 + 0.06)
    tight = measured(SUITE, "final_score", latency_budget_ms=1500)
    assert tight.value == pytest.approx(0.15 + 0.4 + 0.15), "a p95 beyond the budget leaves nothing"


def test_a_final_score_without_a_part_says_which() -> None:
    rows = [{name: value for name, value in SUITE[1].items() if name != "latency_ms"}]
    reason = measured(rows, "final_score").reason
    assert reason == (
        "no safety_rate: no record is of the category adversarial, written just so; "
        "no latency_p95_ms: no record has latency_ms"
    )
