"""Input: hostile and unknown files; the table of bombs is in tests/records/test_hostile_files.py."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path
from threading import Timer

import pytest
from click.testing import Result

import calipers as cal
from calipers.support.files import stage_file
from calipers.systems.journal import Journal
from tests.commands import run

_RECORD = {"id": "1", "answer": "4", "target": "4"}


def _score(*arguments: object) -> Result:
    return run("score", *arguments)


def test_a_compressed_file_that_expands_without_measure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"{}\n" * (1 << 18) + b"\n" * (1 << 18))
    result = _score(path)
    assert (result.exit_code, "--max-expansion" in result.output) == (2, True), result.output


def test_a_line_beyond_the_limit_is_refused_and_the_limit_can_be_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**_RECORD, "input": "x" * (2 << 20)}))
    result = _score(path, "--max-record-mb", 1)
    assert (result.exit_code, "--max-record-mb" in result.output) == (2, True), result.output
    assert _score(path).exit_code == 0


def test_records_with_and_without_an_id_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "whole.jsonl").write_text(json.dumps(_RECORD) + "\n")
    (tmp_path / "mixed.jsonl").write_text('{"answer": "4", "target": "4"}\n')
    result = _score(tmp_path / "whole.jsonl", tmp_path / "mixed.jsonl")
    assert result.exit_code == 2
    assert "mixed.jsonl: 1 of 1 records have no id" in result.output
    assert "--map id=" in result.output


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    result = _score(pipe)
    assert (result.exit_code, "without a writer" in result.output) == (2, True)


def test_a_pipe_that_is_written_to_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)  # does not wait for a reader
    os.write(end, json.dumps(_RECORD).encode() + b"\n")
    Timer(1.0, os.close, [end]).start()
    assert "accuracy" in _score(pipe).output


def test_a_release_that_is_a_list_is_a_mistake_in_the_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("progressive: {release: [], v1: {accuracy: 80}}\n")
    (tmp_path / "a.jsonl").write_text(json.dumps(_RECORD))
    arguments = ["gate", str(tmp_path / "a.jsonl"), "--policy", str(policy)]
    result = run(*arguments)
    assert (result.exit_code, "release" in result.output) == (2, True), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_damaged_log_prints_a_short_message(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("samples/" + "x" * 30_000 + ".json", "{}")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"samples/x", b"samples/y", 1))  # the name in its header only
    result = _score(path)
    assert result.exit_code == 2
    assert len(result.output) < 1000


def test_a_blank_line_in_a_journal_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(_RECORD) + "\n\n" + json.dumps(_RECORD) + "\n")
    assert [record for _, _, record in Journal(path).read_lines()] == [_RECORD, _RECORD]


def test_two_who_write_the_same_file_at_once_do_not_meet(tmp_path: Path) -> None:
    with stage_file(tmp_path / "a.json") as one, stage_file(tmp_path / "a.json") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "a.json").read_text() == "one"


def test_records_of_which_nothing_can_be_measured_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question,prediction,gold\n1+1,2,2\n")
    result = _score(path)
    assert result.exit_code == 2
    assert "question, prediction, gold" in result.output
    assert "--map answer=prediction --map target=gold" in result.output
    assert _score(path, "--map", "answer=prediction", "--map", "target=gold").exit_code == 0
    assert _score(path, "--metric", "accuracy").exit_code == 0  # a null, with its reason


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("table.json", {"columns": ["in", "out"], "data": [["q", "a"]]}, "nothing can be measured"),
        ("run.json", {"testCases": [{"input": "q"}], "testPassed": 1}, "nothing can be measured"),
        (
            "smith.jsonl",
            {"inputs": {}, "outputs": {}, "run_type": "llm"},
            "nothing can be measured",
        ),
        ("empty.json", [], "no records"),
        ("number.json", 42, "one JSON number"),
        ("numbers.json", [1, 2], "not records"),
        ("config.json", {"retries": 5}, "nothing can be measured"),
        ("page.json", b"<!DOCTYPE html><html></html>", "a web page"),
        ("page.csv", b"<html></html>", "a web page"),
        ("data.jsonl", bytes(range(256)), "binary data"),
        ("data.csv", b"PAR1xxxx", "a Parquet file"),
        ("wide.jsonl", '{"id": 1}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_records_is_named_and_never_an_empty_success(
    name: str, content: object, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    result = _score(path)
    assert result.exit_code in (2, 3), result.output
    assert said in result.output
    assert "OpenTelemetry" not in result.output


def test_a_folder_without_data_says_so(tmp_path: Path) -> None:
    result = _score(tmp_path)
    assert (result.exit_code, "without any file of records" in result.output) == (2, True)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("count", [1, 2])
def test_pretty_printed_objects_are_records(tmp_path: Path, suffix: str, count: int) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("\n".join([json.dumps(_RECORD, indent=2)] * count))
    assert cal.score(path).records == count


def test_the_list_inside_one_object_is_read_with_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"model": "m", "results": [_RECORD, _RECORD]}, indent=2))
    score = cal.score(path)
    assert score.records == 2
    assert any("its list 'results'; left out: model" in notice for notice in score.notices)
