"""Exports of other tools: each is told by what is in it, and becomes records with its scores."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import DataError, UsageError
from tests.commands import run
from tests.records import export_files as files
from tests.records.log_files import recognize, sample, write_inspect_log, write_texts

_TEXTS = {"input": "2 + 2?", "answer": "4"}
_TOKENS = {"prompt_tokens": 10, "completion_tokens": 3}
_CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "MLflow": ("table.json", files.MLFLOW_TABLE, {**_TEXTS, "latency_ms": 500}),
    "MLflow trace files": (
        "trace.jsonl",
        files.MLFLOW_TRACE,
        {**_TEXTS, **_TOKENS, "score_relevance": 0.75, "score_grounded": True, "latency_ms": 20},
    ),
    "Ragas": (
        "ragas.jsonl",
        files.make_ragas_row(),
        {**_TEXTS, "reference": "4", "score_faithfulness": 0.5},
    ),
    "Langfuse": (
        "traces.json",
        [files.LANGFUSE],
        {**_TEXTS, "prompt_tokens": 11, "completion_tokens": 5, "model": "m", "cost_usd": 0.25}
        | {"score_helpful": 0.5, "latency_ms": 1500},
    ),
    "LangSmith": (
        "runs.jsonl",
        files.LANGSMITH,
        {**_TEXTS, **_TOKENS, "id": "e1", "model": "m", "score_right": 1, "latency_ms": 1500},
    ),
    "Braintrust": (
        "experiment.json",
        {"events": [files.BRAINTRUST], "cursor": None},
        {**_TEXTS, **_TOKENS, "reference": "4", "model": "m", "score_Factuality": 0.5}
        | {"duration_seconds": 1.5},
    ),
    "Weave": (
        "calls.jsonl",
        files.WEAVE,
        {**_TEXTS, **_TOKENS, "reference": "4", "model": "m", "latency_ms": 1500}
        | {"score_match_correct": True, "score_length": 0.5},
    ),
    "Phoenix": (
        "spans.jsonl",
        files.PHOENIX,
        {**_TEXTS, **_TOKENS, "model": "m", "latency_ms": 1500, "score_Hallucination": 0.5},
    ),
    "every_eval_ever": (
        "samples.jsonl",
        files.EVERY_EVAL_EVER,
        {**_TEXTS, **_TOKENS, "id": "sums/7", "target": "4", "correct": True, "model": "org/m"}
        | {"score_score": 1.0, "cot": "two and two", "latency_ms": 1500},
    ),
    "leaderboard details": (
        "details.jsonl",
        files.LEADERBOARD,
        {**_TEXTS, "target": "4", "correct": True, "score_acc": 1, "score_f1": 0.5},
    ),
    "tau-bench": (
        "airline.json",
        [files.TAU_BENCH],
        {"id": "3", "run": 2, "passed": True, "answer": "Done", "score_reward": 1.0},
    ),
    "SWE-bench": ("m.run.json", files.SWE_BENCH, {"id": "a__b-1", "passed": True, "model": "m"}),
    "SWE-bench predictions": (
        "preds.jsonl",
        {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": "diff"},
        {"id": "a__b-1", "model": "m", "answer": "diff", "category": "a"},
    ),
    "SWE-agent": (
        "a__b-1.traj",
        files.SWE_AGENT,
        {**_TOKENS, "id": "a__b-1", "input": "Fix it.", "answer": "diff", "cost_usd": 0.25},
    ),
    "judgments of tier runs": (
        "judgment.json",
        files.JUDGMENT,
        {"passed": True, "score_judge": 0.5, "score_functional": 1.0, "score_style": 0.0},
    ),
    "agent traces": (
        "trace.json",
        files.AGENT_TRACE,
        {"id": "x1", "duration_seconds": 1.5},
    ),
    "chat completions": (
        "log.jsonl",
        files.CHAT,
        {**_TEXTS, "model": "m-2026", "prompt_tokens": 6, "cache_read_tokens": 4}
        | {"completion_tokens": 3, "finish_reason": "stop", "latency_ms": 1500},
    ),
}


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_export_is_told_by_its_content_and_keeps_its_scores(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    file, content, expected = _CASES[name]
    path = write_texts(tmp_path / file, content, indent=indent)
    assert recognize(path) == name
    record = cal.read(path).to_dicts()[0]
    assert {field: record.get(field) for field in expected} == expected


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], {"a": None}, True, "[", "{"])
def test_odd_values_in_an_export_are_read_or_named(tmp_path: Path, name: str, value: Any) -> None:
    file, content, _ = _CASES[name]
    row = content[0] if isinstance(content, list) else content
    for number, field in enumerate(row):
        path = write_texts(tmp_path / f"{number}{file}", {**row, field: value})
        with suppress(DataError):
            cal.read(path, source=name)


def test_the_scores_of_an_export_are_measured(tmp_path: Path) -> None:
    rows = [files.make_ragas_row(faithfulness=value, id=str(value)) for value in (0.5, 1.0)]
    path = write_texts(tmp_path / "ragas.jsonl", *rows)
    result = json.loads(run("score", path, "--format", "json").stdout)
    assert result["groups"][0]["metrics"]["score_faithfulness"]["value"] == 0.75


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_another_tool_is_told_by_its_columns(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame([files.make_ragas_row(retrieved_contexts="['four']")] * 2)
    path = tmp_path / f"ragas{suffix}"
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    assert recognize(path) == "Ragas"
    assert cal.read(path)["score_faithfulness"].to_list() == [0.5, 0.5]


def test_the_flat_columns_of_langsmith_are_put_together(tmp_path: Path) -> None:
    row = {
        "inputs.question": "2 + 2?",
        "outputs.answer": "4",
        "reference.answer": "4",
        "feedback.exact": 1.0,
        "execution_time": 1.5,
        "example_id": "e1",
        "id": "r1",
    }
    path = tmp_path / "experiment.csv"
    pl.DataFrame([row]).write_csv(path)
    record = cal.read(path).to_dicts()[0]
    assert (record["id"], record["input"], record["answer"], record["reference"]) == (
        *("e1", "2 + 2?", "4", "4"),
    )
    assert (record["score_exact"], record["latency_ms"]) == (1.0, 1500)


def test_what_is_inside_another_call_is_left_out_and_counted(tmp_path: Path) -> None:
    inner = {**files.LANGSMITH, "id": "r2", "parent_run_id": "r1"}
    path = write_texts(tmp_path / "runs.jsonl", files.LANGSMITH, inner)
    result = cal.score(path)
    assert result.records == 1
    assert any("1 runs inside others were left out" in each for each in result.notices)


def test_helm_has_its_statistics_beside(tmp_path: Path) -> None:
    folder = tmp_path / "sums:model=m"
    folder.mkdir()
    write_texts(folder / "scenario_state.json", files.HELM, indent=2)
    write_texts(folder / "per_instance_stats.json", files.HELM_STATS, indent=2)
    record = cal.read(folder).to_dicts()[0]
    told = {name: record[name] for name in ("id", "task", "model", "input", "target", "answer")}
    assert told == {
        "id": "id1",
        "task": "sums",
        "model": "m",
        "input": "2 + 2?",
        "target": "4",
        "answer": "4",
    }
    assert (record["correct"], record["score_f1"], record["latency_ms"]) == (True, 0.5, 1500)


def test_the_means_of_helm_stand_beside_ours_and_a_fraction_decides_nothing(tmp_path: Path) -> None:
    [state], [stats] = files.HELM["request_states"], files.HELM_STATS
    other = {**state, "instance": {**state["instance"], "id": "id2"}}
    half = [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 0.5}]
    states = {**files.HELM, "request_states": [state, other]}
    write_texts(tmp_path / "scenario_state.json", states, indent=2)
    per_instance = [stats, {**stats, "instance_id": "id2", "stats": half}]
    write_texts(tmp_path / "per_instance_stats.json", per_instance, indent=2)
    lower = {"name": "exact_match", "split": "test", "perturbation": {"name": "lowercase"}}
    summary = [{"name": half[0]["name"], "mean": 0.75}, {"name": lower, "mean": 0.0}]
    write_texts(tmp_path / "stats.json", summary, indent=2)
    result = cal.score(tmp_path)
    assert "accuracy" not in result.groups[0].metrics
    [figure] = result.inputs[0].stated
    assert (figure.name, figure.ours, figure.equal) == (
        "test/exact_match",
        "score_exact_match",
        True,
    )


def test_an_observation_of_langfuse_need_not_have_nulls(tmp_path: Path) -> None:
    row = {"id": "o1", "traceId": "t1", "type": "GENERATION", "model": "m", "output": "4"}
    used = {"usageDetails": {"input": 10, "output": 3}, "usage": {"input": 10, "unit": "TOKENS"}}
    path = write_texts(
        tmp_path / "observations.json", {"data": [{**row, **used}], "meta": {}}, indent=2
    )
    assert recognize(path) == "Langfuse"
    [record] = cal.read(path).to_dicts()
    assert (record["answer"], record["prompt_tokens"], record["completion_tokens"]) == ("4", 10, 3)


def test_cases_of_weave_are_told_by_the_row_of_their_dataset(tmp_path: Path) -> None:
    row = "weave:///e/p/object/Dataset:abc/attr/rows/id/r1"
    model = "weave:///e/p/object/adder:def"
    expanded = {"question": "2 + 2?", "expected": "4", "_ref": row}
    calls = [
        {
            **files.WEAVE,
            "id": f"w{n}",
            "summary": {},
            "inputs": {"model": model, "example": example},
        }
        for n, example in enumerate((expanded, expanded, row))
    ]
    records = cal.read(write_texts(tmp_path / "calls.jsonl", *calls)).to_dicts()
    assert [each["id"] for each in records] == [row] * 3
    assert [each["input"] for each in records] == ["2 + 2?", "2 + 2?", row]
    assert {each["model"] for each in records} == {"adder:def"}


def test_perturbed_instances_of_helm_have_their_own_statistics(tmp_path: Path) -> None:
    [state], [stats] = files.HELM["request_states"], files.HELM_STATS
    about = {"perturbation": {"name": "lowercase", "computed_on": "perturbed"}}
    name = {"name": "exact_match", "split": "test", **about}
    wrong = {**stats, **about, "stats": [{"name": name, "count": 1, "mean": 0.0}]}
    states = [state, {**state, "instance": {**state["instance"], **about}}]
    write_texts(
        tmp_path / "scenario_state.json", {**files.HELM, "request_states": states}, indent=2
    )
    write_texts(tmp_path / "per_instance_stats.json", [stats, wrong], indent=2)
    result = cal.score(tmp_path, metrics=["accuracy"])
    assert (result.records, result.groups[0].metrics["accuracy"].value) == (1, 1)
    assert any("1 requests about perturbed instances" in each for each in result.notices)
    groups = cal.score(tmp_path, metrics=["accuracy"], by="perturbation").groups
    found = {each.by["perturbation"]: each.metrics["accuracy"].value for each in groups}
    assert found == {None: 1, "lowercase": 0}


def test_an_instance_of_helm_is_one_record_though_each_reference_was_a_request(
    tmp_path: Path,
) -> None:
    [state], kinds = files.HELM["request_states"], ("original", "calibration")
    states = [
        {**state, "reference_index": at, "request_mode": kind} for at in (0, 1) for kind in kinds
    ]
    write_texts(
        tmp_path / "scenario_state.json", {**files.HELM, "request_states": states}, indent=2
    )
    write_texts(tmp_path / "per_instance_stats.json", files.HELM_STATS, indent=2)
    [record] = cal.read(tmp_path).to_dicts()
    assert record["correct"] is True
    assert "answer" not in record


def test_tables_of_phoenix_are_read_as_pandas_writes_them(tmp_path: Path) -> None:
    counts = {
        "attributes.llm.token_count.prompt": 10.0,
        "attributes.llm.token_count.completion": 5.0,
    }
    times = {"start_time": 1_767_225_600_000, "end_time": 1_767_225_601_500}
    row = {**files.PHOENIX, **counts, **times}
    lines = write_texts(tmp_path / "spans.jsonl", row)
    table = tmp_path / "spans.csv"
    pl.DataFrame([{**row, **{name: str(value) for name, value in counts.items()}}]).write_csv(table)
    for path in (lines, table):
        [record] = cal.read(path).to_dicts()
        assert (record["prompt_tokens"], record["completion_tokens"]) == (10, 5)
        assert record["duration_seconds"] == pytest.approx(1.5)


def test_simulations_of_tau2_bench_are_trials(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "results.json", files.TAU2_BENCH, indent=2)
    assert recognize(path) == "tau-bench"
    record = cal.read(path).to_dicts()[0]
    assert (record["id"], record["run"], record["passed"], record["cost_usd"]) == (
        *("3", 1, False, 0.25),
    )
    assert (record["model"], record["category"]) == ("their-agent", "retail")
    calls = json.loads(record["trace"])["tool_calls"]
    assert calls == [{"tool_name": "book", "args": {"to": "X"}, "success": True}]


def test_swe_bench_tells_errors_of_its_harness_from_failures(tmp_path: Path) -> None:
    table = cal.read(write_texts(tmp_path / "m.run.json", files.SWE_BENCH))
    assert table["passed"].to_list() == [True, False, False]
    assert table["error"].is_null().to_list() == [True, True, False]
    one = cal.read(write_texts(tmp_path / "report.json", files.SWE_BENCH_INSTANCE)).to_dicts()[0]
    assert (one["passed"], one["score_FAIL_TO_PASS"], one["score_PASS_TO_PASS"]) == (False, 0.5, 1)


def test_reports_at_the_end_of_a_log_stand_beside_ours(tmp_path: Path) -> None:
    match = {"type": "match", "data": {"correct": True, "expected": "4"}}
    events = [{"run_id": "r", "event_id": n, "sample_id": f"s.{n}", **match} for n in range(2)]
    report = {"final_report": {"accuracy": 0.5, "note": "x"}}
    evals = write_texts(tmp_path / "a.jsonl", {"spec": {"completion_fns": ["m"]}}, *events, report)
    [figure] = cal.score(evals).inputs[0].stated
    assert (figure.name, figure.ours, figure.equal) == ("final_report/accuracy", "accuracy", False)
    attempt = {
        "entry_type": "attempt",
        "status": 2,
        "outputs": ["a", "b"],
        "detector_results": {"always.Pass": [0.0, 1.0]},
    }
    count = {"entry_type": "eval", "probe": "p.X", "detector": "detector.always.Pass"}
    ended = {**count, "passed": 1, "total": 2}
    garak = write_texts(tmp_path / "b.jsonl", {"entry_type": "init"}, attempt, ended)
    [figure] = cal.score(garak).inputs[0].stated
    assert (figure.name, figure.n, figure.ours, figure.equal) == (
        *("p.X/always.Pass/passed (share)", 2, "pass_rate", True),
    )


def test_a_sample_of_every_eval_ever_counts_for_one_result(tmp_path: Path) -> None:
    """Its converters call a score above 0 correct; a score with fractions is no verdict."""
    lines = [
        {
            **files.EVERY_EVAL_EVER,
            "sample_id": str(n),
            "evaluation_result_id": name,
            "evaluation": {"score": score, "is_correct": score > 0},
        }
        for n in range(4)
        for name, score in (("f1", 0.5 + n / 8), ("exact", float(n == 3)))
    ]
    samples = write_texts(tmp_path / "u_samples.jsonl", *lines)
    results = [
        {"evaluation_result_id": name, "score_details": {"score": value}}
        for name, value in (("f1", 0.6875), ("exact", 0.5))
    ]
    write_texts(tmp_path / "u.json", {"evaluation_results": results})
    score = cal.score(samples)
    assert (score["accuracy"].value, score["accuracy"].n) == (0.25, 4)
    assert "--by evaluation_result_id" in str(score.notices)
    assert [(each.name, each.ours, each.equal) for each in score.inputs[0].stated] == [
        ("f1", None, None),
        ("exact", "accuracy", False),
    ]
    write_texts(samples, *(line for line in lines if line["evaluation_result_id"] == "f1"))
    score = cal.score(samples)
    assert "accuracy" not in score.groups[0].metrics
    [figure, _] = score.inputs[0].stated
    assert (figure.ours, figure.equal) == ("score_score", True)


def test_a_detail_with_fractions_decides_nothing_and_the_next_does(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {**files.LEADERBOARD, "metric": {"acc": acc, "em": em}}
        for acc, em in ((1.0, 0), (0.5, 1), (1.0, 0))
    ]
    table = cal.read(write_texts(tmp_path / "details.jsonl", *rows))
    assert table["correct"].to_list() == [False, True, False]
    for row in rows:
        del row["metric"]["em"]
    score = cal.score(write_texts(tmp_path / "details.jsonl", *rows))
    assert "accuracy" not in score.groups[0].metrics


def test_lines_of_the_batch_api_are_answers(tmp_path: Path) -> None:
    failed = {"custom_id": "q8", "response": {"status_code": 500, "body": {}}, "error": None}
    table = cal.read(write_texts(tmp_path / "batch.jsonl", files.BATCH, failed))
    assert table["id"].to_list() == ["q7", "q8"]
    assert table["answer"].to_list() == ["4", None]
    assert table["error"].to_list() == [None, "status 500"]


def test_the_csv_of_promptfoo_has_a_record_per_row_and_prompt(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(
        "city,[m1] Where is {{city}}?,Status,Score,Named Scores,Grader Reason,Comment,"
        "[m2] Where is {{city}}?,Status,Score,Named Scores,Grader Reason,Comment\n"
        'Rome,Italy,PASS,1.00,"{""tone"":0.5}",All passed,,France,FAIL,0.00,,Wrong,\n',
        encoding="utf-8",
    )
    assert recognize(path) == "promptfoo CSV"
    table = cal.read(path).sort("model")
    assert table["model"].to_list() == ["m1", "m2"]
    assert table["passed"].to_list() == [True, False]
    assert table["answer"].to_list() == ["Italy", "France"]
    assert table["score_total"].to_list() == [1.0, 0.0]
    assert table["score_tone"].to_list() == [0.5, None]
    assert table["city"].to_list() == ["Rome", "Rome"]


def test_a_source_can_be_forced(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.jsonl", {"user_input": "2 + 2?", "response": "4"})
    assert cal.read(path, source="ragas").columns[:2] == ["input", "answer"]
    result = run("score", path, "--source", "RAGAS", "--format", "json")
    assert "a log of Ragas" in result.output
    log = write_inspect_log(tmp_path / "odd.name", [sample(1)])
    assert cal.read(log, source="Inspect")["id"].to_list() == ["sums/1"]


def test_a_forced_source_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.jsonl", {"id": "a", "input": "x", "target": "4"})
    with pytest.raises(cal.DataError, match="it was read as a log of Braintrust, as --source says"):
        cal.score(path, source="Braintrust")
    notices = cal.score(path, source="Inspect").notices
    assert f"{path}: read as a log of Inspect, as --source says" in notices


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_forced_source_is_read_from_standard_input(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    lines = write_texts(
        tmp_path / "a.jsonl", files.make_ragas_row(), files.make_ragas_row()
    ).read_bytes()
    table = b"user_input,response,faithfulness\n2 + 2?,4,0.5\n"
    zipped = write_inspect_log(tmp_path / "a.eval", [sample(1), sample(2, "I")]).read_bytes()
    for name, data, rows in (("Ragas", lines, 2), ("Ragas", table, 1), ("Inspect", zipped, 2)):
        arguments = ["score", "-", "--source", name, "--format", "json"]
        result = run(*arguments, input=pack(data))
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        [read] = found["inputs"]
        assert (read["path"], read["rows"], read["format"]) == ("-", rows, name)


def test_a_log_on_standard_input_that_is_damaged_is_told_as_such() -> None:
    result = run("score", "-", "--source", "SWE-agent", input=b'{"info": {')
    assert result.exit_code == 2
    assert "-:1: not JSON" in result.output


def test_a_source_of_records_is_no_log(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "ragas.jsonl", files.make_ragas_row())
    assert "input" not in cal.read(path, source="records").columns
    asked = cal.read(path, source="records", map={"answer": "response"})
    assert asked["answer"].to_list() == ["4"]


def test_a_source_that_is_unknown_names_the_nearest(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "a.jsonl", {"id": "1"})
    with pytest.raises(UsageError, match="no such log reader") as caught:
        cal.read(path, source="Langfuze")
    assert "Langfuse" in caught.value.fix
    assert run("score", path, "--source", "Langfuze").exit_code == 2


def test_a_name_of_the_tools_own_can_still_be_mapped(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "ragas.jsonl", files.make_ragas_row(note={"gold": "5"}))
    assert cal.read(path, map={"target": "note.gold"})["target"].to_list() == ["5"]


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.95])
def test_an_export_that_was_cut_is_one_clear_message(tmp_path: Path, cut: float) -> None:
    text = json.dumps([files.LANGFUSE] * 50, indent=1)
    path = tmp_path / "traces.json"
    path.write_text(text[: int(len(text) * cut)], encoding="utf-8")
    with pytest.raises(DataError, match=r"traces\.json:\d+: not"):
        cal.read(path)


@pytest.mark.parametrize("named", [["gold_sum"], []])
def test_what_a_case_of_mlflow_expects_is_no_score(tmp_path: Path, named: list[str]) -> None:
    expected = [{"assessment_name": name, "expectation": {"value": 18.84}} for name in named]
    row = {
        "trace_id": "tr-1",
        "request": "3 × 6.28?",
        "response": '"18.84"',
        "assessments": [*expected, {"assessment_name": "polite", "feedback": {"value": True}}],
        "polite/value": True,
        "expected_response/value": "18.84",
        **{f"{name}/value": 18.84 for name in named},
    }
    path = tmp_path / "result_df.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    metrics = cal.score(path).groups[0].metrics
    assert [name for name in metrics if name.startswith("score_")] == ["score_polite"]
