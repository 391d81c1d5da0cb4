"""The contract, who is counted where, and which metrics are computed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from calipers.metrics import catalogue, metric_named
from tests.files import write_lines
from tests.scores.scored_records import FROM_THEIR_FIELDS, REASONING, RECORDS, only


def test_the_json_is_the_contracts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    score = cal.score(path, by="model", seed=7).to_dict()
    assert list(score) == [
        *("schema", "version", "seed", "settings", "inputs", "groups", "metric_versions")
    ]
    versions = score["metric_versions"]
    assert list(versions) == list(score["groups"][0]["metrics"])
    assert versions == {name: metric_named(name).version for name in versions}
    assert score["schema"] == "calipers.score/1"
    assert score["version"] == cal.__version__
    assert score["seed"] == 7
    assert score["settings"] == {
        "normalize": "numeric",
        "answer": "recorded",
        "answer_after": None,
        "answer_regex": None,
        "bins": 10,
        "tokenizer": "whitespace",
        "step_pattern": None,
        "correction_phrases": [],
        "rag_text": "answer",
        "pass_weight": 0.5,
        "impl_weight": 0.5,
        "grade_scale": {"A": 0.95, "B": 0.85, "C": 0.75, "D": 0.65},
        "consensus": "median",
        "prices": None,
        "judge_cost": "apart",
        "pass_score": 1.0,
        "positive": None,
        "latency_budget_ms": 5000.0,
        "case_weights": None,
        "optimal_tools": None,
        "start": None,
        "goal": None,
        "weights": None,
        "semantic_model": "distilbert-base-uncased",
        "semantic_cache": None,
        "missing": "zero",
        "errors": "exclude",
        "success_threshold": 0.8,
        "checks": None,
        "threshold_from": None,
        "confidence": 0.95,
        "cluster": None,
        "resamples": 0,
        "weight": "row",
    }
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert score["inputs"] == [{"path": str(path), "rows": 7, "sha256": digest}]
    assert [list(group) for group in score["groups"]] == [
        ["by", "records", "errors", "truncated", "warning", "metrics"],
        ["by", "records", "errors", "truncated", "metrics"],
    ]
    m0, m1 = score["groups"]
    assert (m0["by"], m0["records"], m0["errors"]) == ({"model": "m0"}, 4, 1)
    assert (m1["by"], m1["records"], m1["errors"]) == ({"model": "m1"}, 3, 0)
    assert set(m0["metrics"]) == set(m1["metrics"]) == FROM_THEIR_FIELDS
    fields = ["value", "low", "high", "stderr", "interval", "n", "missing", "reason"]
    for name, metric in {**m0["metrics"], **m1["metrics"]}.items():
        beside = {
            "accuracy": ["unanswered"],
            "token_efficiency": ["quality"],
            "math_usr": ["equations", "wrong", "rounded", "equals_signs", "coverage"],
        }
        bounds = {"interval_reason", "scope"}
        shown = [field for field in metric if field not in bounds]
        assert shown == [*fields, *beside.get(name, [])]
    assert m0["metrics"]["accuracy"] == {
        "value": 1 / 3,
        "low": pytest.approx(0.0018, abs=1e-4),
        "high": pytest.approx(0.9927, abs=1e-4),
        # Two tasks, one with two runs, of which one is right: (⅓)² over ⅓ and (⅓)² over ⅔.
        "stderr": pytest.approx((1 / 9 / (1 / 3) + 1 / 9 / (2 / 3)) ** 0.5 / 3),
        "interval": "wilson",
        "n": 3,
        "missing": 0,
        "reason": None,
        "unanswered": 1,
    }


def test_the_json_is_strict_and_can_be_read_again() -> None:
    score = cal.score(RECORDS, by=["model", "run"])
    text = score.to_json()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse) == score.to_dict()
    assert json.loads(score.to_json(indent=None)) == score.to_dict()


def test_an_infinite_mean_is_a_string() -> None:
    score = cal.score([{"latency_ms": 1.7e308}, {"latency_ms": 1.7e308}])
    assert only(score).metrics["latency_mean_ms"].to_dict()["value"] == "Infinity"


def test_without_by_there_is_one_group_with_an_empty_by() -> None:
    assert only(cal.score(RECORDS)).to_dict()["by"] == {}


def test_without_records_there_is_nothing() -> None:
    score = cal.score([], by="model")
    assert (score.groups, score.records, score.exit_code) == ((), 0, 3)
    assert str(score) == "No records.\n"
    assert score.to_polars().is_empty()


OF_TASKS = {name for name in catalogue() if name.startswith(("pass_at_", "pass_hat_"))}


OF_ALL_ROWS = sorted({*catalogue()} - {"safety_rate"} - OF_TASKS)


@pytest.mark.parametrize("by", [(), ("model",), ("model", "run"), ("answer",)])
def test_every_row_is_used_missing_or_failed(by: tuple[str, ...]) -> None:
    check_that_rows_add_up(OF_ALL_ROWS, by)


@pytest.mark.parametrize("name", OF_ALL_ROWS)
def test_every_row_counts_for_a_metric_alone(name: str) -> None:
    check_that_rows_add_up([name], ("model",))


def check_that_rows_add_up(names: list[str], by: tuple[str, ...]) -> None:
    score = cal.score(RECORDS, by=by, metrics=names)
    assert sum(group.records for group in score.groups) == 7
    assert sum(group.errors for group in score.groups) == 1
    for group in score.groups:
        for name in names:
            measured = group.metrics[name]
            assert measured.n + measured.missing + group.errors == group.records, name
            known = measured.value is not None
            assert known == (measured.n > 0) == (measured.reason is None), name


def test_a_null_takes_its_row_out_of_that_metric_alone() -> None:
    metrics = only(cal.score(RECORDS)).metrics
    used = {name: metrics[name].n for name in ("accuracy", "brier", "sce", "total_tokens_mean")}
    assert used == {"accuracy": 5, "brier": 3, "sce": 4, "total_tokens_mean": 1}


def test_a_task_without_an_answer_is_wrong_and_counted() -> None:
    rows = [
        {"target": "4", "answer": "4"},
        {"target": "4"},
        {"target": "4", "answer": None},
        {"target": None, "answer": "4"},
        {"target": "4", "correct": True},  # recorded: its answer is not asked for
        {"target": "4", "error": "boom"},
    ]
    measured = only(cal.score(rows)).metrics["accuracy"]
    assert (measured.value, measured.n, measured.missing) == (0.5, 4, 1)
    assert measured.extras == {"unanswered": 2}


def test_a_failed_call_counts_in_no_metric() -> None:
    good = {"id": "1", "target": "4", "answer": "4", "cot": "1 + 1 = 2", "latency_ms": 5.0}
    failed = {**good, "id": "2", "answer": "9", "cot": "1 + 1 = 3", "latency_ms": 5e9, "error": "x"}
    with_it, without = only(cal.score([good, failed])), only(cal.score([good]))
    assert (with_it.records, with_it.errors) == (2, 1)
    for name, measured in without.metrics.items():
        assert with_it.metrics[name] == measured


@pytest.mark.parametrize(
    "error", ["timeout: 60 s", "False", True, 0, 1.5, {"code": 429}, ["x"], " "]
)
def test_an_error_that_is_set_is_a_failed_call(error: Any) -> None:
    assert only(cal.score([{"answer": "a", "error": error}])).errors == 1


@pytest.mark.parametrize("error", [None, "", False, float("nan")])
def test_an_error_that_is_not_set_is_none(error: Any) -> None:
    assert only(cal.score([{"answer": "a", "error": error}])).errors == 0


def test_where_every_call_failed_the_reason_says_so() -> None:
    group = only(cal.score([{"answer": "a", "target": "a", "error": "boom"}] * 2))
    assert (group.records, group.errors) == (2, 2)
    measured = group.metrics["accuracy"]
    assert (measured.value, measured.n, measured.missing) == (None, 0, 0)
    assert measured.reason == "every call failed"


def test_metrics_are_computed_whose_fields_are_present() -> None:
    rows = [{"answer": "a"}, {"latency_ms": None, "prob_correct": float("nan")}]
    assert set(only(cal.score(rows)).metrics) == {"sce", "sce_normalized"}
    rows.append({"latency_ms": 3})
    needing = {name for name, each in catalogue().items() if each.needs == ("latency_ms",)}
    found = {"sce", "sce_normalized", "time_score", *needing}
    assert set(only(cal.score(rows)).metrics) == found


def test_a_field_is_present_when_any_row_of_any_group_has_it() -> None:
    rows = [{"m": "a", "answer": "x"}, {"m": "b", "answer": "x", "cot": "y"}]
    first, second = cal.score(rows, by="m").groups
    assert set(first.metrics) == set(second.metrics)
    assert first.metrics["cot_tokens_mean"].reason == "no record has cot"


def test_a_profile_shows_nulls_with_reasons() -> None:
    metrics = only(cal.score([{"answer": "a"}], profile="reasoning")).metrics
    assert set(metrics) == set(REASONING)
    assert metrics["sce"].value == 0.0
    reasons = {name: metrics[name].reason for name in ("brier", "latency_p95_ms", "stability")}
    assert reasons == {
        "brier": "no record has prob_correct and correct, or answer and target",
        "latency_p95_ms": "no record has latency_ms",
        "stability": "no task has two runs whose answers can be checked",
    }


def test_metrics_that_are_named_are_given_in_that_order() -> None:
    chosen = ["stability", "accuracy", "stability"]
    assert list(only(cal.score(RECORDS, metrics=chosen)).metrics) == ["stability", "accuracy"]


@pytest.mark.parametrize(
    ("options", "problem", "fix"),
    [
        ({"metrics": ["acuracy"]}, "no metric is called acuracy", "did you mean accuracy?"),
        ({"profile": "reasonin"}, "no profile is called reasonin", "did you mean reasoning?"),
        ({"by": "modle"}, "--by modle: no record has a value in modle", "did you mean model?"),
        (
            {"map": {"answer": "outptu"}},
            "--map answer=outptu: no record has a value in outptu",
            "known: ",
        ),
        (
            {"map": {"anser": "x"}},
            "--map anser=…: the record has no field anser",
            "did you mean answer?",
        ),
        ({"engine": "dask"}, "--engine dask: no such choice", "polars or spark"),
        ({"bins": 0}, "--set bins=0: must be at least 1", "10 is"),
        ({"normalize": "x"}, "--set normalize=x: no such choice", "numeric or text"),
        ({"judge_cost": "x"}, "--set judge_cost=x: no such choice", "apart or included"),
        ({"missing": "x"}, "--set missing=x: no such choice", "zero or renormalize"),
        ({"on_bad": "x"}, "--on-bad x: no such choice", "stop or skip"),
        ({"bad_rows": "x.jsonl"}, "--bad-rows needs --on-bad skip", "add --on-bad skip"),
        ({"per_sample": "x.txt"}, "--per-sample x.txt: unknown format", "name a file that ends in"),
    ],
)
def test_what_makes_no_sense_is_said(options: dict[str, Any], problem: str, fix: str) -> None:
    with pytest.raises(cal.UsageError) as refused:
        cal.score(RECORDS, **options)
    assert refused.value.message == problem
    assert refused.value.fix.startswith(fix)


def test_fields_are_renamed() -> None:
    rows = [{"output": "4", "expected": "4", "answer": "5", "system": "s"}]
    score = cal.score(
        rows, map={"answer": "output", "target": "expected", "model": "system"}, by="model"
    )
    assert only(score).by == {"model": "s"}
    assert only(score).metrics["accuracy"].value == 1.0
