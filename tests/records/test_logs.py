"""Logs of other tools: told by what is in them, and read as records."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from click.testing import CliRunner, Result

import calipers as cal
from calipers.cli import app
from calipers.records.logs import Log
from calipers.records.sources import open_sources
from calipers.support.errors import DataError
from tests.records.log_files import (
    agent_spans,
    deepeval_case,
    inspect_log,
    lm_eval_line,
    promptfoo_row,
    sample,
    written,
)


def _invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def _format(path: Path) -> str | None:
    [source] = open_sources(path)
    return source.format.name if isinstance(source, Log) else None


def test_a_document_counts_once_however_many_filters_there_are(tmp_path: Path) -> None:
    lines = [
        lm_eval_line(n, of, float(n == of_right))
        for n in (1, 2, 3)
        for of, of_right in (("strict", 1), ("flexible", 2))
    ]
    path = written(tmp_path / "samples_sums_2025-09-09T13-31-53.431753.jsonl", *lines)
    written(
        tmp_path / "results_2025-09-09T13-31-53.431753.json",
        {"model_name": "tiny", "results": {}, "lm_eval_version": "0.4.9"},
    )
    result = cal.score(path, by="model", metrics=["accuracy"])
    assert result.groups[0].by == {"model": "tiny"}
    assert result.groups[0].records == 3
    assert any("3 lines of other filters" in notice for notice in result.notices)
    both = cal.score(path, by="filter", metrics=["accuracy"])
    assert {group.by["filter"]: group.records for group in both.groups} == {
        "strict": 3,
        "flexible": 3,
    }


def test_likelihoods_give_the_answer_and_its_confidence(tmp_path: Path) -> None:
    replies = [[-1.0, False], [0.0, True], [-1.0, False]]
    line = lm_eval_line(
        1,
        filtered_resps=replies,
        resps=[[each] for each in replies],
        target=1,
        metrics=["acc"],
        acc=1.0,
    )
    [record] = cal.read(written(tmp_path / "samples.jsonl", line)).to_dicts()
    assert (record["answer"], record["target"], record["correct"]) == ("1", "1", True)
    assert record["prob_correct"] == pytest.approx(1 / (1 + 2 * 2.718281828459045**-1))


def test_the_likelihood_of_a_single_text_is_no_answer(tmp_path: Path) -> None:
    replies = [["-1.5", "True"]]
    line = lm_eval_line(1, filtered_resps=replies, resps=[replies], metrics=["acc"], acc=1.0)
    [record] = cal.read(written(tmp_path / "samples.jsonl", line)).to_dicts()
    assert record["correct"] is True
    assert not {"answer", "cot", "prob_correct"} & record.keys()


def test_the_likelihood_of_a_whole_document_is_no_answer(tmp_path: Path) -> None:
    line = lm_eval_line(
        1,
        arguments={"gen_args_0": {"arg_0": "Once"}},
        resps=[["-9.5"]],
        filtered_resps=["-9.5"],
        metrics=["word_perplexity"],
        word_perplexity=[-9.5, 3],
    )
    [record] = cal.read(written(tmp_path / "samples.jsonl", line)).to_dicts()
    assert not {"answer", "correct", "target"} & record.keys()
    assert record["expected"] == "4"


def test_choices_asked_with_and_without_their_question_are_as_many_as_they_are(
    tmp_path: Path,
) -> None:
    replies = [[-2.0, False], [-1.0, False], [0.0, True], [-3.0, False]]
    line = lm_eval_line(
        1,
        filtered_resps=replies,
        metrics=["acc", "acc_mutual_info"],
        acc=1.0,
        acc_mutual_info=0.0,
    )
    [record] = cal.read(written(tmp_path / "samples.jsonl", line)).to_dicts()
    assert record["answer"] == "1"
    assert record["prob_correct"] == pytest.approx(1 / (1 + 2.718281828459045**-1))


def test_one_metric_decides_in_a_whole_file_of_lm_eval(tmp_path: Path) -> None:
    metrics = ["bleu", "strict"]
    lines = [
        lm_eval_line(number, metrics=metrics, bleu=bleu, strict=strict)
        for number, (bleu, strict) in enumerate([(0.0, True), (0.3, False), (0.0, None)])
    ]
    table = cal.read(written(tmp_path / "samples.jsonl", *lines))
    assert table["correct"].to_list() == [True, False, None]
    assert table["score_strict"].to_list() == [True, False, None]


def test_texts_that_lm_eval_measured_otherwise_are_not_compared(tmp_path: Path) -> None:
    lines = [lm_eval_line(n, metrics=["bleu"], bleu=bleu) for n, bleu in enumerate((0.0, 0.3))]
    result = cal.score(written(tmp_path / "samples.jsonl", *lines))
    assert "accuracy" not in result.groups[0].metrics


def test_answers_that_lm_eval_only_predicted_are_compared(tmp_path: Path) -> None:
    line = lm_eval_line(1, metrics=["bypass"], bypass=999)
    path = written(tmp_path / "samples.jsonl", line)
    assert "score_bypass" not in cal.read(path).columns
    assert cal.score(path).groups[0].metrics["accuracy"].value == 1


def test_samples_of_old_versions_do_not_list_their_metrics(tmp_path: Path) -> None:
    line = lm_eval_line(1, right=0.0)
    del line["metrics"]
    table = cal.read(written(tmp_path / "samples.jsonl", line))
    assert (table["correct"][0], table["score_exact_match"][0]) == (False, 0)


def test_results_may_have_any_name_of_the_same_time(tmp_path: Path) -> None:
    time = "2025-09-09T13-31-53.431753"
    path = written(tmp_path / f"samples_sums_{time}.jsonl", lm_eval_line(1))
    written(tmp_path / f"mine_{time}.json", {"model_name": "tiny"})
    assert cal.read(path)["model"].to_list() == ["tiny"]


def test_results_without_samples_say_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "results.json", {"results": {}, "lm_eval_version": "0.4"}, indent=1)
    result = _invoke("score", path)
    assert result.exit_code == 2
    assert "--log_samples" in result.output


@pytest.mark.parametrize("version", [2, 3])
def test_promptfoo_has_a_tier_per_prompt_and_tells_errors_from_failures(
    tmp_path: Path, version: int
) -> None:
    rows = [
        promptfoo_row(0, "Say"),
        promptfoo_row(0, "Tell", success=False, failureReason=1, error="not equal"),
        promptfoo_row(1, "Say", success=False, failureReason=2, error="timeout", response=None),
    ]
    document = {"results": {"results": rows} if version > 2 else rows}
    table = cal.read(written(tmp_path / "out.json", document, indent=2))
    assert table["tier"].to_list() == ["Say", "Tell", "Say"]
    assert table["passed"].to_list() == [True, False, False]
    assert table["error"].to_list() == [None, None, "timeout"]
    assert table["model"].to_list() == ["openai:gpt-4o-mini"] * 3
    assert table["target"].to_list() == ["Bonjour"] * 3
    assert table["language"].to_list() == ["French"] * 3
    assert table["prompt_tokens"].to_list() == [7.0, 7.0, None]
    scores = cal.score(tmp_path / "out.json").groups[0].metrics
    assert (scores["score_total"].value, scores["score_tone"].value) == (1.0, 0.5)


def _deepeval_run(*cases: Any, **fields: Any) -> dict[str, Any]:
    run = {"testCases": list(cases), "conversationalTestCases": [], "metricsScores": []}
    return {**run, "testPassed": 0, "testFailed": len(cases), "runDuration": 0.1, **fields}


@pytest.mark.parametrize("shape", ["results folder", "latest", "dumped"])
def test_the_scores_of_deepeval_are_measured_under_their_names(tmp_path: Path, shape: str) -> None:
    calls = [{"name": "look_up", "type": "FUNCTION", "inputParameters": {"order": 17}}]
    run = _deepeval_run(
        deepeval_case("a", toolsCalled=calls),
        deepeval_case("b", success=True, metricsData=[{"name": "Exact Match", "score": 0.5}]),
        hyperparameters={"model": "mini"},
    )
    if shape == "latest":
        run = {"testRunData": run, "testRunLink": None}
    if shape == "dumped":  # model_dump_json() of what evaluate() returns
        names = {"actualOutput": "actual_output", "metricsData": "metrics_data"}
        cases = [{names.get(key, key): case[key] for key in case} for case in run["testCases"]]
        run = {"test_results": cases, "confident_link": None, "test_run_id": None}
    path = written(tmp_path / "run.json", run, indent=2)
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


def test_a_metric_of_deepeval_that_broke_fails_no_case(tmp_path: Path) -> None:
    broken = {"name": "Faithfulness", "success": False, "error": "no key"}
    failed = {"name": "Bias", "success": False, "score": 0.1}
    flaky = {"name": "Tone", "success": False, "score": 0.1, "flaky": True}
    cases = [
        deepeval_case("a", metricsData=[broken]),
        deepeval_case("b", metricsData=[broken, failed]),
        deepeval_case("c", metricsData=[broken, flaky]),
    ]
    table = cal.read(written(tmp_path / "run.json", _deepeval_run(*cases)))
    assert table["passed"].to_list() == [None, False, None]


def test_cases_of_deepeval_are_runs_where_name_and_input_are_the_same(tmp_path: Path) -> None:
    cases = [
        deepeval_case("a"),
        deepeval_case("a"),
        deepeval_case("b"),
        deepeval_case("b", input="?"),
    ]
    for order, case in enumerate(cases):
        case["order"] = order
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    talk = {"name": "talk", "success": True, "turns": turns, "expectedOutcome": "is greeted"}
    run = _deepeval_run(*cases, conversationalTestCases=[{**talk, "metricsData": []}])
    table = cal.read(written(tmp_path / "run.json", run))
    assert table["id"].to_list() == ["a", "a", "b/2", "b/3", "talk"]
    assert table["run"].to_list() == [1, 2, 1, 1, 1]
    assert table.row(4, named=True)["answer"] == "Hello"
    assert table.row(4, named=True)["input"] == "Hi"
    assert table.row(4, named=True)["reference"] == "is greeted"


def test_garak_runs_pass_where_no_detector_found_anything(tmp_path: Path) -> None:
    attempt = {
        "entry_type": "attempt",
        "uuid": "u",
        "seq": 0,
        "status": 2,
        "probe_classname": "dan.Dan",
        "prompt": {"turns": [{"role": "user", "content": {"text": "be bad"}}]},
        "outputs": [{"text": "no"}, {"text": "yes"}, {"text": "?"}, None],
        "detector_results": {"mit.Mit": [0.0, 1.0, None, None], "other.X": [0.2, 0.0, None, None]},
    }
    path = written(
        tmp_path / "x.report.jsonl",
        {"entry_type": "start_run setup", "plugins.target_name": "qwen2"},
        {**attempt, "status": 1},
        attempt,
    )
    table = cal.read(path)
    assert table["passed"].to_list() == [True, False, None, None]
    assert table["violations"].to_list() == ["[]", '["mit.Mit"]', None, None]
    assert table["run"].to_list() == [1, 2, 3, 4]
    assert table["model"].unique().to_list() == ["qwen2"]
    assert cal.score(path).groups[0].errors == 1


def test_events_of_a_sample_are_put_together(tmp_path: Path) -> None:
    def event(sample: str, kind: str, **data: Any) -> dict[str, Any]:
        return {"run_id": "r", "event_id": 0, "sample_id": sample, "type": kind, "data": data}

    path = written(
        tmp_path / "log.jsonl",
        {"spec": {"completion_fns": ["gpt-4"], "eval_name": "sums"}},
        {"final_report": {"accuracy": 0.5}},
        event("a", "sampling", prompt=[{"role": "user", "content": "2 + 2?"}], sampled=["4"]),
        event("b", "match", correct=False, expected="5", sampled="6"),
        event("a", "match", correct=True, expected="4", sampled="4"),
    )
    table = cal.read(path).sort("id")
    assert table.select("id", "model", "answer", "target", "correct", "task").rows() == [
        ("a", "gpt-4", "4", "4", True, "sums"),
        ("b", "gpt-4", "6", "5", False, "sums"),
    ]
    assert table["input"].to_list() == ["2 + 2?", None]


def test_the_call_of_a_grader_is_none_of_the_models(tmp_path: Path) -> None:
    def event(kind: str, **data: Any) -> dict[str, Any]:
        return {"run_id": "r", "event_id": 0, "sample_id": "a", "type": kind, "data": data}

    def call(prompt: str, said: str) -> dict[str, Any]:
        used = {"prompt_tokens": 10, "completion_tokens": 2}
        return event("sampling", prompt=prompt, sampled=[said], usage=used)

    own = [call("2 + 2?", "three"), call("Sure?", "four")]
    graded = [call("Is it right?", "Y"), event("metrics", choice="Y", score=1.0)]
    for events, calls in ((own, 2), ([*own, *graded], 2)):
        [record] = cal.read(written(tmp_path / "log.jsonl", *events)).to_dicts()
        assert (record["input"], record["answer"]) == ("Sure?", "four")
        assert record["prompt_tokens"] == 10 * calls


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_repeated_test_of_promptfoo_is_a_task_of_several_runs(
    tmp_path: Path, suffix: str
) -> None:
    rows = [promptfoo_row(test, "Say", promptIdx=0) for test in (1, 0)]
    rows += [promptfoo_row(2, "Say", promptIdx=0, vars={"language": "Greek"})]
    path = tmp_path / f"out{suffix}"
    written(path, *(rows if suffix == ".jsonl" else [{"results": {"results": rows}}]))
    table = cal.read(path).sort("id", "run")
    assert table.select("id", "run").rows() == [("0", 1), ("0", 2), ("2", 1)]
    assert table["input"].to_list() == ["Say 0", "Say 1", "Say 2"]


def test_what_promptfoo_compares_with_has_its_variables_filled_in(tmp_path: Path) -> None:
    template = {"type": "equals", "value": "{{greeting}}"}
    known = {"assertion": template, "metadata": {"renderedAssertionValue": "Bonjour"}}
    rows = [
        promptfoo_row(0, "Say", testCase={"assert": [template]}, gradingResult=grading)
        for grading in ({"componentResults": [known]}, None)
    ]
    table = cal.read(written(tmp_path / "out.json", {"results": rows}))
    assert table["target"].to_list() == ["Bonjour", None]


def test_an_answer_of_promptfoo_may_be_any_json(tmp_path: Path) -> None:
    row = promptfoo_row(0, "Say", response={"output": {"a": [1, "é"]}})
    table = cal.read(written(tmp_path / "out.json", {"results": [row]}))
    assert table["answer"].to_list() == ['{"a": [1, "é"]}']


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "answer": "4", "target": "4"},
        {"doc_id": 1, "doc": {}, "answer": "4"},
        {"name": "x", "attributes": {}, "answer": "4"},
        {"name": "x", "attributes": {}, "context": "none", "trace_id": "1"},
        {"results": 3, "prompt": "x"},
        {"eval": "x", "version": 1, "status": "ok"},
        {"type": "match", "sample_id": "1"},
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_records_of_our_own_are_no_logs(tmp_path: Path, row: dict[str, Any], suffix: str) -> None:
    assert _format(written(tmp_path / f"a{suffix}", row, row)) is None


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"{}" * 3, b'{"a": ' * 5000]
)
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".eval"])
def test_what_is_no_log_is_no_traceback(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    result = _invoke("score", path)
    assert result.exit_code in (2, 3), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_folder_of_logs_is_all_of_them(tmp_path: Path) -> None:
    inspect_log(tmp_path / "b.eval", [sample(1)])
    inspect_log(tmp_path / "a.eval", [sample(2)])
    (tmp_path / "logs.json").write_text("{}", encoding="utf-8")
    assert cal.read(tmp_path)["id"].to_list() == ["sums/2", "sums/1"]


def test_a_folder_of_other_files_says_how_to_name_them(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "id")
    result = _invoke("score", tmp_path)
    assert result.exit_code == 2
    assert "*.csv'" in result.output


def test_logs_are_read_packed_too(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.zst"
    path.write_bytes(zstandard.compress(json.dumps(lm_eval_line(1)).encode()))
    assert _format(path) == "lm-eval"
    assert cal.read(path)["correct"].to_list() == [True]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_log_that_was_cut_is_one_clear_message(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "samples.jsonl"
    lines = (lm_eval_line(number, note=os.urandom(20).hex()) for number in range(9_000))
    packed = pack(written(path, *lines).read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="damaged or cut short"):
        cal.read(path)


@pytest.mark.parametrize(
    "value",
    [None, 1, "x", [], {}, [None], {"a": None}, True, pytest.param(10**400, id="huge")],
    ids=repr,
)
def test_odd_values_are_read_or_named(tmp_path: Path, value: Any) -> None:
    line, row, span = lm_eval_line(1), promptfoo_row(0, "Say"), agent_spans()[0]
    odd = {name: value for name in sample(1) if name not in ("id", "epoch")}
    logs = [
        inspect_log(tmp_path / "a.eval", [{**sample(1), **odd}]),
        written(tmp_path / "l.jsonl", line, dict.fromkeys(line, value) | {"filter": "strict"}),
        written(tmp_path / "p.json", {"results": [row, dict.fromkeys(row, value)]}),
        written(
            tmp_path / "o.json",
            {"resourceSpans": [{"scopeSpans": [{"spans": [span, dict.fromkeys(span, value)]}]}]},
        ),
    ]
    for log in logs:
        with suppress(DataError):
            cal.read(log)


def test_what_is_nested_too_deeply_is_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    nested = json.dumps(lm_eval_line(1)).replace('"sums"', "[" * 700 + "NaN" + "]" * 700)
    path.write_text(json.dumps(lm_eval_line(0)) + "\n" + nested, encoding="utf-8")
    with pytest.raises(DataError, match=r"nested|not JSON"):
        cal.read(path)


def test_odd_names_of_tool_calls_are_read(tmp_path: Path) -> None:
    messages = [
        {"tool_calls": [{"id": {}, "function": "add"}]},
        {"tool_call_id": [], "error": {"message": "no"}},
    ]
    path = inspect_log(tmp_path / "a.eval", [sample(1, messages=messages)])
    assert json.loads(cal.read(path)["trace"][0])["tool_calls"][0]["tool_name"] == "add"


@pytest.mark.parametrize(
    "arguments",
    [
        {"gen_args_0": {"arg_0": "Q: 2 + 2?", "arg_1": {}}},
        [["Q: 2 + 2?", {}]],
        {"gen_args_0": {"arg_0": [{"role": "user", "content": "Q: 2 + 2?"}], "arg_1": {}}},
        {"gen_args_0": {"arg_0": '[{"role": "user", "content": "Q: 2 + 2?"}]', "arg_1": {}}},
    ],
    ids=["named", "listed", "messages", "messages as text"],
)
def test_the_question_of_lm_eval_may_be_only_in_its_arguments(
    tmp_path: Path, arguments: Any
) -> None:
    line = {**lm_eval_line(1), "doc": {"passage": "…"}, "arguments": arguments}
    table = cal.read(written(tmp_path / "samples_x_2025-01-01T00-00-00.0.jsonl", line))
    assert table["input"].to_list() == ["Q: 2 + 2?"]


def test_the_tokens_of_promptfoos_cache_are_kept_apart(tmp_path: Path) -> None:
    cached = {"output": "4", "tokenUsage": {"total": 30, "cached": 30}}
    told = {"total": 15, "prompt": 10, "completion": 5}
    fresh = {**told, "completionDetails": {"cacheReadInputTokens": 7, "reasoning": 2}}
    rows = [
        promptfoo_row(0, "Say", response=cached),
        promptfoo_row(1, "Say", response={"output": "4", "tokenUsage": fresh}),
    ]
    table = cal.read(written(tmp_path / "out.json", {"results": rows}))
    assert table["cached_tokens"].to_list() == [30, None]
    assert table["prompt_tokens"].to_list() == [None, 10]
    assert table["cache_read_tokens"].to_list() == [None, 7]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_records_are_joined_with_their_tasks(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"id": "7", "answer": "4", "category": None, "latency_ms": 5.0},
        {"id": "8", "answer": "5", "category": "own", "latency_ms": None},
    ]
    path = tmp_path / f"a{suffix}"
    frame = pl.DataFrame(rows)
    if suffix == ".csv":
        frame.write_csv(path)
    elif suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_ndjson(path)
    tasks = written(
        tmp_path / "tasks.jsonl",
        {"name": 7, "target": "4", "category": "easy", "level": 1},
        {"name": 8, "target": "4", "category": "hard", "level": 2},
    )
    table = cal.read(path, join=tasks, on="id=name").sort("id")
    assert table["target"].to_list() == ["4", "4"]
    assert table["category"].to_list() == ["easy", "own"]
    assert table["latency_ms"].to_list() == [5, None]
    assert cal.score(path, join=tasks, on="id=name")["accuracy"].value == 0.5


def test_traces_are_joined_with_their_tasks_and_say_which_have_none(tmp_path: Path) -> None:
    path = written(tmp_path / "spans.jsonl", *agent_spans())
    tasks = written(tmp_path / "tasks.jsonl", {"id": "nobody", "target": "4"})
    result = _invoke("score", path, "--join", tasks, "--on", "id")
    assert "none of 1 records found a task with the same id" in result.output
    assert "a log of OpenTelemetry" in result.output


@pytest.mark.parametrize(
    ("tasks", "on", "said"),
    [
        ([{"id": "1"}, {"id": "1"}], "id", "two tasks have the id"),
        ([{"name": "1"}], "id", "no task has a id"),
        ([], "id", "no task has"),
    ],
)
def test_tasks_that_cannot_be_joined_are_named(
    tmp_path: Path, tasks: list[dict[str, str]], on: str, said: str
) -> None:
    path = written(tmp_path / "a.jsonl", {"id": "1", "answer": "4"})
    with pytest.raises(DataError, match=said):
        cal.read(path, join=written(tmp_path / "tasks.jsonl", *tasks), on=on)
    assert _invoke("score", path, "--on", "id").exit_code == 2
