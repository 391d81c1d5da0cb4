"""What never passes: nothing, failed calls, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import DataError, UsageError
from tests.gates.deciding import blocking, only, record, runs


@pytest.mark.parametrize(
    "policy",
    [
        blocking(pass_rate=0.01),
        {"thresholds": {"warning": {"pass_rate": 90}}},
        {"required_scenarios": {"ids": ["a"]}},
        {"pass_criteria": {"overall": 80, "by_category": {"a": 90}}},
        {"composite": {}},
    ],
)
def test_an_empty_run_never_passes(policy: dict[str, Any]) -> None:
    result = cal.gate([], policy=policy)
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("there are no records",)


def test_a_run_with_errors_is_incomplete_however_good() -> None:
    data = [*runs(99, 0), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    assert result.incomplete == ("1 of 100 calls failed",)
    assert only(result).verdict == "pass"


def test_a_failed_check_goes_before_an_incomplete_run() -> None:
    data = [*runs(9, 90), {"id": "x", "error": "timeout: 60 s"}]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code) == ("fail", 1)
    assert result.incomplete


def test_an_incomplete_run_goes_before_doubt() -> None:
    data = [*runs(10, 0), {"id": "x", "error": "timeout: 60 s"}]
    policy = {**blocking(pass_rate=90), "evidence": "interval"}
    assert cal.gate(data, policy=policy).exit_code == 3


def test_where_every_call_failed_nothing_is_judged() -> None:
    data = [{"id": str(n), "error": "server: 500"} for n in range(3)]
    result = cal.gate(data, policy=blocking(pass_rate=90))
    assert (result.verdict, result.exit_code, result.checks) == ("incomplete", 3, ())
    assert result.incomplete == ("3 of 3 calls failed",)


def test_bad_rows_that_are_left_out_make_it_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "passed": true}\n{"id": "b", "passed": "maybe"}\n')
    with pytest.raises(DataError):
        cal.gate(path, policy=blocking(pass_rate=50))
    result = cal.gate(path, policy=blocking(pass_rate=50), on_bad="skip")
    assert result.exit_code == 3
    assert result.incomplete == ("bad rows left out: 1",)


def test_a_policy_that_demands_nothing_is_refused() -> None:
    for policy in ({}, {"weights": {"by_category": {"a": 2}}}):
        with pytest.raises(UsageError, match="nothing can fail"):
            cal.gate(runs(1, 0), policy=policy)


def test_a_scenario_of_two_categories_is_refused() -> None:
    data = [record("a", category="happy_path"), record("a", category="adversarial", run=2)]
    with pytest.raises(DataError, match="the scenario a is of the category adversarial in one"):
        cal.gate(data, policy=blocking(pass_rate=50))


def test_an_empty_category_is_seen_in_the_refusal() -> None:
    data = [record(" a", category=""), record(" a", category="adversarial", run=2)]
    with pytest.raises(DataError, match='the scenario " a" is of the category "" in one'):
        cal.gate(data, policy=blocking(pass_rate=50))


def half_known(**of_the_rest: Any) -> list[dict[str, Any]]:
    known = [{"id": f"mmlu-{n}", "answer": "A", "target": "A"} for n in range(40)]
    return known + [{"id": f"chat-{n}", "answer": "Hello", **of_the_rest} for n in range(40)]


def test_records_of_a_category_without_any_value_are_not_missed() -> None:
    rows = half_known(category="chitchat")
    assert cal.gate(rows, policy=blocking(accuracy=90)).verdict == "pass"
    rows = [*rows, {"id": "one", "category": "chitchat", "answer": "B", "target": "B"}]
    result = cal.gate(rows, policy=blocking(accuracy=90))
    (reason,) = result.incomplete
    assert reason == (
        "accuracy: 40 of 81 records that should have a value of accuracy have none; to accept it: "
        "missing: {accuracy: 50%} in the policy"
    )
    assert only(result).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("lifts", "verdict"),
    [
        ({}, "incomplete"),
        ({"missing": {"accuracy": "50%"}}, "pass"),
        ({"missing": {"accuracy": 50}}, "pass"),
        ({"missing": {"accuracy": "49%"}}, "incomplete"),
        ({"missing": {"pass_rate": "100%"}}, "incomplete"),
        ({"undecided": "ignore"}, "pass"),
    ],
)
def test_a_policy_may_accept_missing_values(lifts: dict[str, Any], verdict: str) -> None:
    policy = {**blocking(accuracy=90), **lifts}
    assert cal.gate(half_known(), policy=policy).verdict == verdict


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"acuracy": "50%"}, "accuracy"),
        ({"accuracy": 0.5}, 'write "0.5%" or "50%"'),
        ({"accuracy": "< 50%"}, "comparison"),
        ({"accuracy": -0.1}, "below 0 %"),
        ({"accuracy": "120%"}, "above 100 %"),
    ],
)
def test_a_tolerance_that_makes_no_sense(written: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cal.gate(half_known(), policy={**blocking(accuracy=90), "missing": written})


def test_a_tenth_may_be_missing() -> None:
    rows = [{"id": f"mmlu-{n}", "answer": "A", "target": "A" if n else None} for n in range(10)]
    result = cal.gate(rows, policy=blocking(accuracy=90))
    assert result.verdict == "pass"
    assert "accuracy: 1 of 10 records have no value and are left out" in result.notices


def test_failed_calls_are_no_missing_values() -> None:
    rows = [{"id": f"mmlu-{n}", "answer": "A", "target": "A", "latency_ms": 9} for n in range(40)]
    rows += [{"id": f"mmlu-{n}", "error": "timeout: 60 s"} for n in range(40, 60)]
    policy = blocking(latency_p95="< 10ms", accuracy=50)
    assert cal.gate(rows, policy=policy).incomplete == ("20 of 60 calls failed",)
    assert cal.gate(rows, policy=policy, errors="fail").verdict == "pass"
    lost = [{**row, "target": None} if str(row["id"]) < "mmlu-19" else row for row in rows]
    found = cal.gate(lost, policy=policy, errors="fail")
    assert found.incomplete[0].startswith("accuracy: 11 of 40 records")


def test_undecided_scenarios_do_not_block_a_check_that_only_warns() -> None:
    answered = [
        {"id": f"t{n}", "expected_behaviors": ["x"], "observed_behaviors": ["x"]} for n in range(9)
    ]
    rows = [*answered, {"id": "open", "expected_behaviors": None, "observed_behaviors": ["x"]}]
    warns = {"thresholds": {"warning": {"pass_rate": "50%"}}}
    result = cal.gate(rows, policy=warns)
    assert (only(result).verdict, only(result).undecided.count) == ("pass", 1)
    assert (result.verdict, result.incomplete) == ("pass", ())
    assert only(cal.gate(rows, policy=blocking(pass_rate="50%"))).verdict == "inconclusive"


def test_every_part_of_a_final_score_needs_its_values() -> None:
    rows = [
        record(
            f"SEC-{n}", category="adversarial", expected_behaviors=["a"], observed_behaviors=["a"]
        )
        | {"answer": "4", "target": "4", "latency_ms": 100 if n < 20 else None}
        for n in range(40)
    ]
    result = cal.gate(rows, policy=blocking(final_score=80))
    assert "20 of 40 records that should have a value of latency_p95_ms" in result.incomplete[0]
    policy = {**blocking(final_score=80), "missing": {"final_score": "50%"}}
    assert cal.gate(rows, policy=policy).verdict == "pass"
