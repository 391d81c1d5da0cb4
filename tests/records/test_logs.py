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
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.fields import FIELDS
from calipers.records.logs import list_readers
from calipers.support.errors import DataError
from tests.commands import run
from tests.records.log_files import (
    make_agent_spans,
    make_lm_eval_line,
    make_promptfoo_row,
    recognize,
    sample,
    write_inspect_log,
    write_texts,
)


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
    path = write_texts(
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

    path = write_texts(
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
        [record] = cal.read(write_texts(tmp_path / "log.jsonl", *events)).to_dicts()
        assert (record["input"], record["answer"]) == ("Sure?", "four")
        assert record["prompt_tokens"] == 10 * calls


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
    assert recognize(write_texts(tmp_path / f"a{suffix}", row, row)) is None


@given(
    st.dictionaries(
        st.sampled_from(list(FIELDS)), st.none() | st.booleans() | st.integers() | st.text()
    )
)
def test_a_record_of_plain_fields_is_no_tools_log(row: dict[str, Any]) -> None:
    """Which is why the readers are not even imported for a file that begins with one."""
    assert not [reader.name for reader in list_readers() if reader.fits(row)]
    for reader in list_readers():
        reader.refuse(row, Path("records.jsonl"))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"{}" * 3, b'{"a": ' * 5000]
)
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".eval"])
def test_what_is_no_log_is_no_traceback(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    result = run("score", path)
    assert result.exit_code in (2, 3), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_folder_of_logs_is_all_of_them(tmp_path: Path) -> None:
    write_inspect_log(tmp_path / "b.eval", [sample(1)])
    write_inspect_log(tmp_path / "a.eval", [sample(2)])
    (tmp_path / "logs.json").write_text("{}", encoding="utf-8")
    assert cal.read(tmp_path)["id"].to_list() == ["sums/2", "sums/1"]


def test_a_folder_of_other_files_says_how_to_name_them(tmp_path: Path) -> None:
    write_texts(tmp_path / "a.csv", "id")
    result = run("score", tmp_path)
    assert result.exit_code == 2
    assert "*.csv'" in result.output


def test_logs_are_read_packed_too(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.zst"
    path.write_bytes(zstandard.compress(json.dumps(make_lm_eval_line(1)).encode()))
    assert recognize(path) == "lm-eval"
    assert cal.read(path)["correct"].to_list() == [True]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_log_that_was_cut_is_one_clear_message(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "samples.jsonl"
    lines = (make_lm_eval_line(number, note=os.urandom(20).hex()) for number in range(9_000))
    packed = pack(write_texts(path, *lines).read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="damaged or cut short"):
        cal.read(path)


@pytest.mark.parametrize(
    "value",
    [None, 1, "x", [], {}, [None], {"a": None}, True, pytest.param(10**400, id="huge")],
    ids=repr,
)
def test_odd_values_are_read_or_named(tmp_path: Path, value: Any) -> None:
    line, row, span = make_lm_eval_line(1), make_promptfoo_row(0, "Say"), make_agent_spans()[0]
    odd = {name: value for name in sample(1) if name not in ("id", "epoch")}
    logs = [
        write_inspect_log(tmp_path / "a.eval", [{**sample(1), **odd}]),
        write_texts(tmp_path / "l.jsonl", line, dict.fromkeys(line, value) | {"filter": "strict"}),
        write_texts(tmp_path / "p.json", {"results": [row, dict.fromkeys(row, value)]}),
        write_texts(
            tmp_path / "o.json",
            {"resourceSpans": [{"scopeSpans": [{"spans": [span, dict.fromkeys(span, value)]}]}]},
        ),
    ]
    for log in logs:
        with suppress(DataError):
            cal.read(log)


def test_what_is_nested_too_deeply_is_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    nested = json.dumps(make_lm_eval_line(1)).replace(
        '"sums"', "[" * 100_000 + "NaN" + "]" * 100_000
    )
    path.write_text(json.dumps(make_lm_eval_line(0)) + "\n" + nested, encoding="utf-8")
    with pytest.raises(DataError, match=r"nested|not JSON"):
        cal.read(path)


def test_odd_names_of_tool_calls_are_read(tmp_path: Path) -> None:
    messages = [
        {"tool_calls": [{"id": {}, "function": "add"}]},
        {"tool_call_id": [], "error": {"message": "no"}},
    ]
    path = write_inspect_log(tmp_path / "a.eval", [sample(1, messages=messages)])
    assert json.loads(cal.read(path)["trace"][0])["tool_calls"][0]["tool_name"] == "add"


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
    tasks = write_texts(
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
    path = write_texts(tmp_path / "spans.jsonl", *make_agent_spans())
    tasks = write_texts(tmp_path / "tasks.jsonl", {"id": "nobody", "target": "4"})
    result = run("score", path, "--join", tasks, "--on", "id")
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
    path = write_texts(tmp_path / "a.jsonl", {"id": "1", "answer": "4"})
    with pytest.raises(DataError, match=said):
        cal.read(path, join=write_texts(tmp_path / "tasks.jsonl", *tasks), on=on)
    assert run("score", path, "--on", "id").exit_code == 2
