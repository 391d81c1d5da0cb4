"""Test runs of DeepEval: its scores, broken metrics, repeated cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.records.log_files import (
    make_deepeval_case,
    write_texts,
)


def _deepeval_run(*cases: Any, **fields: Any) -> dict[str, Any]:
    run = {"testCases": list(cases), "conversationalTestCases": [], "metricsScores": []}
    return {**run, "testPassed": 0, "testFailed": len(cases), "runDuration": 0.1, **fields}


@pytest.mark.parametrize("shape", ["results folder", "latest", "dumped"])
def test_the_scores_of_deepeval_are_measured_under_their_names(tmp_path: Path, shape: str) -> None:
    calls = [{"name": "look_up", "type": "FUNCTION", "inputParameters": {"order": 17}}]
    run = _deepeval_run(
        make_deepeval_case("a", toolsCalled=calls),
        make_deepeval_case("b", success=True, metricsData=[{"name": "Exact Match", "score": 0.5}]),
        hyperparameters={"model": "mini"},
    )
    if shape == "latest":
        run = {"testRunData": run, "testRunLink": None}
    if shape == "dumped":  # model_dump_json() of what evaluate() returns
        names = {"actualOutput": "actual_output", "metricsData": "metrics_data"}
        cases = [{names.get(key, key): case[key] for key in case} for case in run["testCases"]]
        run = {"test_results": cases, "confident_link": None, "test_run_id": None}
    path = write_texts(tmp_path / "run.json", run, indent=2)
    score = cal.score(path)
    assert score["score_exact_match"].value == 0.75
    assert score["score_correctness_geval"].value == 0.25
    assert score["pass_rate"].value == 0.5
    table = cal.read(path)
    assert table["id"].to_list() == ["a", "b"]
    assert table["answer"].to_list() == ["4", "4"]
    assert table["reason"].to_list() == ["Too short.", None]
    assert table["level"].to_list() == [1.0, 1.0]
    if shape != "dumped":
        assert table["model"].to_list() == ["mini"] * 2
        assert '"tool_name": "look_up"' in table["trace"].to_list()[0]


@pytest.mark.parametrize("name", [17, 1.5, True, {"a": 1}, ["x"], "", None])
def test_a_metric_of_deepeval_of_another_name_is_no_crash(tmp_path: Path, name: Any) -> None:
    case = make_deepeval_case("a", metricsData=[{"name": name, "score": 0.5}])
    score = cal.score(write_texts(tmp_path / "run.json", _deepeval_run(case)))
    assert score.groups[0].records == 1


def test_a_metric_of_deepeval_that_broke_fails_no_case(tmp_path: Path) -> None:
    broken = {"name": "Faithfulness", "success": False, "error": "no key"}
    failed = {"name": "Bias", "success": False, "score": 0.1}
    flaky = {"name": "Tone", "success": False, "score": 0.1, "flaky": True}
    cases = [
        make_deepeval_case("a", metricsData=[broken]),
        make_deepeval_case("b", metricsData=[broken, failed]),
        make_deepeval_case("c", metricsData=[broken, flaky]),
    ]
    table = cal.read(write_texts(tmp_path / "run.json", _deepeval_run(*cases)))
    assert table["passed"].to_list() == [None, False, None]


def test_cases_of_deepeval_are_runs_where_name_and_input_are_the_same(tmp_path: Path) -> None:
    cases = [
        make_deepeval_case("a"),
        make_deepeval_case("a"),
        make_deepeval_case("b"),
        make_deepeval_case("b", input="?"),
    ]
    for order, case in enumerate(cases):
        case["order"] = order
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    talk = {"name": "talk", "success": True, "turns": turns, "expectedOutcome": "is greeted"}
    run = _deepeval_run(*cases, conversationalTestCases=[{**talk, "metricsData": []}])
    table = cal.read(write_texts(tmp_path / "run.json", run))
    assert table["id"].to_list() == ["a", "a", "b/2", "b/3", "talk"]
    assert table["run"].to_list() == [1, 2, 1, 1, 1]
    assert table.row(4, named=True)["answer"] == "Hello"
    assert table.row(4, named=True)["input"] == "Hi"
    assert table.row(4, named=True)["reference"] == "is greeted"


def test_the_figures_of_deepeval_stand_beside_ours(tmp_path: Path) -> None:
    cases = [make_deepeval_case("refund"), make_deepeval_case("greeting", success=True)]
    scores = [{"metric": "Correctness [GEval]", "scores": [0.25, 0.75], "passes": 1, "fails": 1}]
    run = {"testCases": cases, "metricsScores": scores, "testPassed": 1, "testFailed": 1}
    stated = cal.score(write_texts(tmp_path / "run.json", run)).inputs[0].stated
    assert [(each.name, each.value, each.ours, each.equal) for each in stated] == [
        ("test_passed (share)", 0.5, "pass_rate", True),
        ("Correctness [GEval] (mean)", 0.5, "score_correctness_geval", False),
    ]
