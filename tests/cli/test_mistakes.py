"""Mistakes in the data and in the command are one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.scored_data import ROWS
from tests.commands import refused, run
from tests.files import write_lines


@pytest.mark.parametrize(
    ("line", "problem", "metric"),
    [
        (b'{"answer": ', "not JSON: Expecting value at column 12", "sce"),
        (b'{"answer": ["a"]}', 'answer: ["a"] is a list, not a text', "sce"),
        (b'{"latency_ms": "fast"}', 'latency_ms: "fast" is not a number', "latency_p95_ms"),
        (b'{"correct": "yes"}', 'correct: "yes" is not true or false', "accuracy"),
        (b'{"prob_correct": 1.01}', "prob_correct: 1.01 is outside [0, 1]", "ece"),
        (b'{"prompt_tokens": -5}', "prompt_tokens: -5 is negative", "total_tokens_mean"),
        (
            b'{"latency_ms": Infinity}',
            "latency_ms: Infinity is not a finite number",
            "latency_mean_ms",
        ),
        (b'{"answer": "\xff"}', "invalid UTF-8 at byte 13 of the line", "stability"),
        (b"null", "a JSON value, not an object with fields", "math_usr"),
    ],
)
def test_a_bad_row_is_named(line: bytes, problem: str, metric: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"answer": "a"}\n' + line + b"\n")
    told = (
        f"error: {path}:2: {problem}\n  fix the row, read another field (--map FIELD=NAME), "
        "or leave bad rows out (--on-bad skip)\n"
    )
    assert refused("score", path) == told
    assert refused("explain", metric, path) == told
    assert run("explain", metric, path, "--on-bad", "skip").exit_code == 0


def test_a_missing_file_is_named_with_what_is_there(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", ROWS)
    path = tmp_path / "b.jsonl"
    assert refused("score", path) == (f"error: {path}: no such file\n  the folder has: a.jsonl\n")
    assert refused("score", tmp_path / "nowhere" / "x.csv").endswith("check the path\n")
    assert refused("score", tmp_path / "*.csv") == (
        f"error: {tmp_path}/*.csv: no file matches\n  check the pattern and the folder\n"
    )


@pytest.mark.parametrize("name", ["a.txt", "a", "a.jsonl.bz2"])
def test_an_unknown_format_is_named_with_the_known(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.touch()
    told = refused("score", path)
    assert told.startswith(f"error: {path}: unknown format ")
    assert "known: .jsonl, .ndjson, .json, .csv, .parquet, .pq" in told


@pytest.mark.parametrize("path", ["", "x" * 5000 + ".jsonl", "a\0b.jsonl"])
def test_a_path_that_cannot_be(path: str) -> None:
    assert refused("score", path).startswith("error: ")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.gz"])
@pytest.mark.parametrize("command", [("score",), ("explain", "accuracy")])
def test_an_empty_file_is_exit_code_3(command: tuple[str, ...], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.touch()
    result = run(*command, path)
    assert result.exit_code == 3
    assert result.stderr == f"empty: no records in {path}\n"


def test_ids_in_some_rows_only(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "answer": "a"}, {"answer": "b"}])
    assert refused("score", path) == (
        f"error: {path}: 1 of 2 records have no id, the others have one\n"
        "  give every record an id, or name the field that holds it: --map id=NAME\n"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--by", "modle"), "--by modle: no record has a value in modle\n  did you mean model?"),
        (("--metric", "acuracy"), "no metric is called acuracy\n  did you mean accuracy?"),
        (("--map", "answer"), "--map answer: not FIELD=NAME\n  for example --map answer=output"),
        (("--map", "=x"), "--map =x: not FIELD=NAME\n  for example --map answer=output"),
        (
            ("--map", "anwser=x"),
            "--map anwser=…: the record has no field anwser\n  did you mean answer?",
        ),
        (
            ("--map", "answer=targe"),
            "--map answer=targe: no record has a value in targe\n  did you mean target?",
        ),
        (("--set", "bins=0"), "--set bins=0: must be at least 1\n  10 is the usual number"),
        (("--bad-rows", "x"), "--bad-rows needs --on-bad skip\n  add --on-bad skip"),
        (
            ("--per-sample", "rows.csv"),
            "--per-sample rows.csv: unknown format\n  name a file that ends in .parquet or .jsonl",
        ),
        (
            ("--per-sample", "nowhere/rows.parquet"),
            "nowhere/rows.parquet: the folder nowhere does not exist\n  create it first",
        ),
        (("-o", "nowhere/x"), "nowhere/x: No such file or directory\n  check the folder"),
        (("-o", "."), ".: Is a directory\n  check the folder, its permissions and free space"),
    ],
)
def test_a_mistake_in_the_command_is_one_message(
    args: tuple[str, ...], message: str, data: str
) -> None:
    assert refused("score", data, *args).startswith(f"error: {message}")


def test_a_folder_where_a_file_is_to_be_written(data: str, tmp_path: Path) -> None:
    for folder in (tmp_path / "rows.parquet", tmp_path / "bad"):
        folder.mkdir()
        option = ("--per-sample", folder) if folder.suffix else ("--bad-rows", folder)
        told = refused("score", data, "--on-bad", "skip", *option)
        assert told == f"error: {folder}: a folder, not a file\n  name a file in it\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("score",), "Missing argument 'FILES…'"),
        (("score", "x.jsonl", "--format", "xml"), "'xml' is not one of 'table', 'json'"),
        (("score", "x.jsonl", "--errors", "x"), "'x' is not one of 'exclude', 'fail'"),
        (("score", "x.jsonl", "--on-bad", "x"), "'x' is not one of 'stop', 'skip'"),
        (("score", "x.jsonl", "--bins", "x"), "'x' is not a valid integer"),
        (("score", "x.jsonl", "--bye", "x"), "No such option"),
        (("explain", "accuracy"), "Missing argument 'FILES…'"),
        (("scroe",), "calipers scroe: no such command\n  did you mean score?"),
    ],
)
def test_usage_errors_are_exit_code_2(args: tuple[str, ...], message: str) -> None:
    assert message in refused(*args)
