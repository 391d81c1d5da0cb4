"""What checks make of a record's lists, and of the verdicts that rest on them."""

import json
from pathlib import Path
from typing import Any

import pytest

import calipers
from calipers.gates.decide import gate
from tests.engines_at_hand import needs_spark

EXPECT = {"expect": "says yes", "contains": "yes"}
FORBID = {"forbid": "says no", "contains": "no"}
QUICK = {"forbid": "answers at once", "max_latency_ms": 1}


def measured(records: Any, checks: list[Any] | None, *metrics: str) -> dict[str, float | None]:
    score = calipers.score(records, checks=checks, metrics=metrics or ["pass_rate"])
    return {name: each.value for name, each in score.groups[0].metrics.items()}


@pytest.mark.parametrize(
    ("record", "checks", "passed"),
    [
        ({"answer": "yes"}, [EXPECT], 1),
        ({"answer": "maybe"}, [EXPECT], 0),
        ({"answer": None}, [EXPECT], 0),  # nothing was observed
        ({"answer": "yes"}, [FORBID], 1),
        ({"answer": "no"}, [FORBID], 0),
        ({"answer": None}, [FORBID], None),  # it may have been said
        ({"answer": "yes and no"}, [EXPECT, FORBID], 0),
        ({"answer": "yes"}, [EXPECT, QUICK], None),  # without a latency
        ({"answer": "maybe"}, [EXPECT, QUICK], 0),  # it fails whatever the latency
        ({"answer": "yes", "passed": True}, [QUICK], None),
        ({"answer": "yes", "passed": False}, [QUICK], 0),
        ({"answer": "no", "passed": True}, [FORBID], 0),
        # What the agent reports itself is added.
        ({"answer": "?", "expected_behaviors": ["a"], "observed_behaviors": ["a"]}, [FORBID], 1),
        ({"answer": "yes", "expected_behaviors": ["a"], "observed_behaviors": []}, [EXPECT], 0),
        ({"answer": "yes", "expected_behaviors": ["a"]}, [EXPECT], None),  # it does not say
        ({"answer": "?", "observed_behaviors": ["says yes"]}, [EXPECT], 0),  # not by its word
        ({"answer": "?", "passed": True}, [EXPECT], 0),
        ({"answer": "yes", "passed": False}, [EXPECT], 0),
        ({"answer": "yes", "violations": ["a"]}, [EXPECT], 0),
        # Forbidding something takes nothing from the judges.
        ({"answer": "?", "judgments": [{"judge": "j", "passed": False}]}, [FORBID], 0),
        ({"answer": None, "judgments": [{"judge": "j", "passed": True}]}, [FORBID], None),
        # Several checks of one name: all must hold, any violates.
        ({"answer": "yes"}, [EXPECT, {"expect": "says yes", "length": {"at_most": 0}}], 0),
        ({"answer": "no"}, [FORBID, {"forbid": "says no", "length": {"at_most": 0}}], 0),
    ],
)
def test_verdicts(record: dict[str, Any], checks: list[Any], passed: float | None) -> None:
    assert measured([{"id": "1", **record}], checks)["pass_rate"] == passed


def test_an_earlier_result_of_the_same_name_is_replaced() -> None:
    record = {
        "id": "1",
        "answer": "yes",
        "expected_behaviors": ["says yes", "other"],
        "observed_behaviors": ["other"],
        "violations": ["says no"],
        "checks": [
            {"name": "says yes", "kind": "contains", "rule": "expect", "held": False},
            {"name": "other", "kind": "contains", "rule": "expect", "held": True},
            {"name": "says no", "kind": "contains", "rule": "forbid", "held": True},
        ],
    }
    assert measured([record], None)["pass_rate"] == 0
    assert measured([record], [EXPECT, FORBID])["pass_rate"] == 1


def test_an_undecided_result_in_a_record_counts_without_its_check(tmp_path: Path) -> None:
    result: dict[str, Any] = {
        "name": "is slow",
        "kind": "max_latency_ms",
        "rule": "forbid",
        "held": None,
    }
    record = {"id": "1", "expected_behaviors": [], "violations": [], "checks": [result]}
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert measured(str(path), None)["pass_rate"] is None
    result["held"] = False
    path.write_text(json.dumps(record) + "\n")
    assert measured(str(path), None)["pass_rate"] == 1


def test_an_undecided_check_leaves_the_gate_incomplete() -> None:
    policy = {"thresholds": {"blocking": {"pass_rate": "≥ 50%"}}, "checks": [EXPECT, QUICK]}
    records: list[dict[str, Any]] = [
        {"id": "1", "answer": "yes"},
        {"id": "2", "answer": "yes", "latency_ms": 5},
    ]
    decided = gate(records, policy=policy)
    assert decided.incomplete
    assert decided.exit_code == 3
    records[0]["latency_ms"] = 5
    assert gate(records, policy=policy).exit_code == 0


def test_checks_of_the_policy_and_of_the_call_both_apply() -> None:
    policy = {"thresholds": {"blocking": {"pass_rate": "= 100%"}}, "checks": [EXPECT]}
    assert gate([{"id": "1", "answer": "yes"}], policy=policy).exit_code == 0
    assert gate([{"id": "1", "answer": "yes, no"}], policy=policy, checks=[FORBID]).exit_code == 1


def test_failed_calls_are_in_no_check() -> None:
    records = [{"id": "1", "answer": "yes"}, {"id": "2", "error": "timeout: late"}]
    assert measured(records, [EXPECT], "pass_rate", "behavior_coverage") == {
        "pass_rate": 1,
        "behavior_coverage": 1,
    }


def test_compare_takes_checks() -> None:
    base = [{"id": str(n), "answer": "no"} for n in range(4)]
    better = [{"id": str(n), "answer": "yes"} for n in range(4)]
    found = calipers.compare(base, better, checks=[EXPECT], metrics=["pass_rate"])
    assert found.pairs[0].metrics["pass_rate"].difference == 1


def test_more_checks_than_fit_into_a_number() -> None:
    checks = [{"expect": f"has {n}", "contains": str(n)} for n in range(45)]
    found = measured([{"id": "1", "answer": " ".join(map(str, range(45)))}], checks)
    assert found["pass_rate"] == 1


def test_what_only_checks_decide_is_in_the_rows_of_samples(tmp_path: Path) -> None:
    out = tmp_path / "each.jsonl"
    records = [{"id": "1", "answer": "yes"}, {"id": "2", "answer": "no"}]
    calipers.score(records, checks=[EXPECT], metrics=["pass_rate"], per_sample=str(out))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["passed"] for row in rows] == [True, False]


@needs_spark
@pytest.mark.long
def test_spark_gives_the_same(tmp_path: Path) -> None:
    records = [
        {"id": str(n), "answer": ["yes", "no", None][n % 3], "n": n % 2, "latency_ms": n}
        for n in range(30)
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    checks: list[dict[str, Any]] = [EXPECT, FORBID, QUICK, {"expect": "own", "regex": "{n}|e"}]
    names = ("pass_rate", "behavior_coverage", "behavior_coverage_pooled")
    here, there = (
        calipers.score(str(path), checks=checks, metrics=names, engine=engine).groups[0].metrics
        for engine in ("polars", "spark")
    )
    assert {name: (each.value, each.n, each.missing) for name, each in here.items()} == {
        name: (each.value, each.n, each.missing) for name, each in there.items()
    }
