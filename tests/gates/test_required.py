"""Required and optional scenarios, categories, and weights."""

from __future__ import annotations

import pytest

import calipers as cal
from tests.gates.deciding import blocking, only, record, runs, verdicts


def test_required_scenarios_must_be_there_and_pass_in_all_their_runs() -> None:
    data = [
        record("good", run=1),
        record("good", run=2),
        record("flaky", run=1),
        record("flaky", run=2, passed=False),
        record("unknown", passed=None),
    ]
    ids = ["good", "flaky", "unknown", "absent"]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ids}})
    assert verdicts(result) == {
        "good": "pass",
        "flaky": "fail",
        "unknown": "fail",
        "absent": "fail",
    }
    assert [check.reason for check in result.checks] == [
        None,
        "1 of 2 runs failed",
        "it gave no verdict",
        "not among the records",
    ]
    assert {check.level for check in result.checks} == {"required"}


def test_a_required_scenario_that_did_not_run_fails() -> None:
    data = [record("a"), {"id": "b", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ["a", "b"]}})
    assert verdicts(result) == {"a": "pass", "b": "fail"}
    assert result.exit_code == 1
    assert result.checks[1].reason == "it did not run"


def test_where_nobody_says_who_passed_the_right_answer_does() -> None:
    data = [
        {"id": "a", "answer": "4.0", "target": "4"},
        {"id": "b", "answer": "5", "target": "4"},
    ]
    result = cal.gate(data, policy={"required_scenarios": {"ids": ["a", "b"]}})
    assert verdicts(result) == {"a": "pass", "b": "fail"}


def test_ids_that_are_numbers_are_texts() -> None:
    result = cal.gate([{"id": 7, "passed": True}], policy={"required_scenarios": {"ids": [7]}})
    assert verdicts(result) == {"7": "pass"}


def test_optional_scenarios_count_and_never_block() -> None:
    policy = {**blocking(pass_rate=50), "optional_scenarios": {"ids": ["s-0", "s-2", "nowhere"]}}
    result = cal.gate(runs(2, 1), policy=policy)
    assert result.verdict == "pass"
    assert verdicts(result) == {
        "pass_rate": "pass",
        "s-0": "pass",
        "s-2": "warn",
        "nowhere": "warn",
    }
    assert result.checks[0].value == pytest.approx(2 / 3)


def test_category_criteria() -> None:
    data = [
        *runs(10, 0, category="adversarial"),
        *runs(17, 3, category="happy_path"),
        *runs(7, 3, category="edge_case"),
    ]
    policy = {
        "pass_criteria": {
            "overall": "≥ 80%",
            "by_category": {
                "adversarial": "100%",
                "happy_path": "≥ 90%",
                "edge_case": "≥ 70%",
                "nothing": "≥ 1%",
            },
        }
    }
    result = cal.gate(data, policy=policy)
    assert verdicts(result) == {
        "overall": "pass",
        "adversarial": "pass",
        "happy_path": "fail",
        "edge_case": "pass",
        "nothing": "fail",
    }
    by_name = {check.name: check for check in result.checks}
    assert by_name["overall"].value == 34 / 40
    assert by_name["happy_path"].failing.first == (
        "happy_path-17",
        "happy_path-18",
        "happy_path-19",
    )
    assert by_name["nothing"].reason == "no value: no scenario has this category"
    assert {check.level for check in result.checks} == {"category"}


@pytest.mark.parametrize("cluster", [None, "topic"])
def test_a_categorys_rate_is_what_score_gives(cluster: str | None) -> None:
    data = [
        record(
            f"{category}-{n}", passed=(n * run) % 3 != 1, run=run, category=category, topic=n % 4
        )
        for category in ("adversarial", "edge_case")
        for n in range(12)
        for run in range(1, 4)
    ]
    criteria = {"adversarial": "≥ 50%", "edge_case": "≥ 50%"}
    result = cal.gate(data, policy={"pass_criteria": {"by_category": criteria}}, cluster=cluster)
    score = cal.score(data, by="category", metrics=["pass_rate"], cluster=cluster)
    measured = {group.by["category"]: group.metrics["pass_rate"] for group in score.groups}
    for check in result.checks:
        expected = measured[check.name]
        assert check.value == expected.value
        assert (check.low, check.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_weights_count_in_the_weighted_pass_rate() -> None:
    data = [*runs(0, 1, category="adversarial"), *runs(3, 0, category="happy_path")]
    policy = {**blocking(weighted_pass_rate=50), "weights": {"by_category": {"adversarial": 3}}}
    assert only(cal.gate(data, policy=policy)).value == 0.5
