"""The command line: results on stdout, all else on stderr, one message for every mistake."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.metrics import catalogue
from tests.commands import refused, run
from tests.examples import first_of
from tests.files import write_lines

ROWS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "model": "m0",
        "target": "4",
        "answer": "4.0",
        "cot": "1. 2 + 2 = 4",
        "prob_correct": 0.9,
        "prompt_tokens": 12000,
        "completion_tokens": 345,
        "latency_ms": 80.25,
    },
    {"id": "q2", "model": "m0", "target": "7", "answer": "8", "latency_ms": 120},
    {"id": "q3", "model": "m1", "target": "7", "answer": "7"},
    {"id": "q4", "model": "m1", "target": "7", "error": "timeout: 60 s"},
]

TABLE = """
metric                                  m0                  m1
 ──────────────────────────────────────────────────────────────────────────
 records                                  2                   2
 failed calls                             0                   1
 accuracy                 0.50 [0.03, 0.97]   1.00 [0.05, 1.00]
 brier                                 0.01                   —
 ece                                    0.1                   —
 sce                        0.69 [0.00, —]*                0.00   nats
 sce_normalized             1.00 [0.00, —]*                0.00
 cot_tokens_mean                          6                   —   tokens
 cot_chars_mean                          12                   —   chars
 step_count_mean                          1                   —   steps
 ra_ratio_mean                            6                   —
 self_correction_rate     0.00 [0.00, 0.95]                   —
 prompt_tokens_mean                  12,000                   —   tokens
 completion_tokens_mean                 345                   —   tokens
 total_tokens_mean                   12,345                   —   tokens
 latency_mean_ms             100 [8, 1,247]                   —   ms
 latency_p95_ms                120 [80, —]*                   —   ms
 math_usr                                 0                   —
 latency_p50_ms                       80.25                   —   ms
 latency_p99_ms           120.0 [120.0, —]*                   —   ms
 token_efficiency                  8.10e-05                   —   per token
 time_score               1.00 [0.34, 1.00]                   —

  without a value: auroc (no right and wrong record with prob_correct to tell apart); answer_entropy, determinism_index
  (no task has two runs with an answer); mode_accuracy (no task has two runs with an answer that can be checked);
  stability (no task has two runs whose answers can be checked)
  without a value in m1: brier, ece (no record has prob_correct and correct, or answer and target); cot_tokens_mean,
  cot_chars_mean, step_count_mean, self_correction_rate (no record has cot); ra_ratio_mean (no record has cot and
  answer); prompt_tokens_mean (no record has prompt_tokens); completion_tokens_mean (no record has completion_tokens);
  total_tokens_mean (no record has prompt_tokens and completion_tokens); latency_mean_ms, latency_p95_ms,
  latency_p50_ms, latency_p99_ms (no record has latency_ms); math_usr (no cot holds an equation); token_efficiency (no
  record has correct and the numbers of its tokens); time_score (no record has duration_seconds, or latency_ms)
  brier, ece, cot_tokens_mean, cot_chars_mean, step_count_mean, ra_ratio_mean and 6 more: no interval: one row does not
  show how much others vary
  latency_p50_ms: no interval: 2 rows are too few for a bound within the data
  token_efficiency: no interval: one cluster does not show how much others vary
  * sce, sce_normalized: no upper bound: fewer than 5 rows for each distinct answer: others may be unseen
  * latency_p95_ms, latency_p99_ms: no upper bound: 2 rows are too few for a bound within the data
  ! m1: 1 of 2 calls failed and are in no metric; --errors fail counts them as failures
"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_lines(tmp_path / "a.jsonl", ROWS))


def shell(
    *args: object, stdin: bytes | None = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "calipers", *map(str, args)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


# --- what is printed ---


def test_the_table(data: str) -> None:
    result = run("score", data, "--by", "model")
    assert result.exit_code == 0
    assert result.stderr == ""
    plain = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert plain.strip() == TABLE.strip()


def test_many_groups_are_tables_one_below_the_other(tmp_path: Path) -> None:
    rows = [{"id": "1", "model": f"model-{number:02}", "answer": "a"} for number in range(40)]
    out = run("score", write_lines(tmp_path / "a.jsonl", rows), "--by", "model").stdout
    assert out.count(" sce_normalized") > 1
    assert all(f"model-{number:02}" in out for number in range(40))
    assert max(map(len, out.splitlines())) <= 120


def test_json_is_what_the_api_gives(data: str) -> None:
    result = run("score", data, "--by", "model", "--format", "json")
    assert result.stdout == cal.score(data, by="model").to_json() + "\n"


def test_csv_has_a_row_per_group_and_metric(data: str) -> None:
    result = run("score", data, "--by", "model", "--metric", "accuracy", "--format", "csv")
    head, *rows = csv.reader(io.StringIO(result.stdout))
    assert head == "model metric value low high stderr interval n missing reason".split()
    assert [row[:3] + row[5:] for row in rows] == [
        ["m0", "accuracy", "0.5", "0.5", "wilson", "2", "0", ""],
        ["m1", "accuracy", "1.0", "", "wilson", "1", "0", ""],
    ]
    assert [[round(float(bound), 4) for bound in row[3:5]] for row in rows] == [
        [0.0253, 0.9747],
        [0.05, 1.0],
    ]


def test_markdown_is_a_table_with_notes(data: str) -> None:
    result = run(
        *("score", data, "--by", "model", "--format", "markdown"),
        *("--metric", "accuracy", "--metric", "latency_mean_ms"),
    )
    assert result.stdout.splitlines() == [
        "| metric | m0 | m1 |",
        "|---|---:|---:|",
        "| records | 2 | 2 |",
        "| failed calls | 0 | 1 |",
        "| accuracy | 0.50 [0.03, 0.97] | 1.00 [0.05, 1.00] |",
        "| latency_mean_ms (ms) | 100 [8, 1,247] | — |",
        "",
        "- without a value in m1: latency_mean_ms (no record has latency_ms)",
        "",
        "- ! m1: 1 of 2 calls failed and are in no metric; --errors fail counts them as failures",
    ]


@pytest.mark.parametrize("output_format", ["table", "json", "csv", "markdown", "latex"])
def test_output_goes_to_the_file_named(output_format: str, data: str, tmp_path: Path) -> None:
    args = ("score", data, "--by", "model", "--format", output_format)
    result = run(*args, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    printed = run(*args).stdout
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert [line.rstrip() for line in written.splitlines()] == [
        line.rstrip() for line in printed.splitlines()
    ]


def test_options_reach_the_score(tmp_path: Path) -> None:
    rows = [{"output": "18.0", "want": "18", "p": 0.25, "t": 0.5}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    names = ("--map", "answer=output", "--map", "target = want", "--map", "prob_correct=p")
    settings = ("--normalize", "text", "--bins", "4", "--seed", "3", "--by", "t")
    score = json.loads(run("score", path, *names, *settings, "--format", "json").stdout)
    assert score["seed"] == 3
    asked = {"normalize": "text", "bins": 4, "tokenizer": "whitespace", "confidence": 0.95}
    assert asked.items() <= score["settings"].items()
    assert score["groups"][0]["by"] == {"t": 0.5}
    assert score["groups"][0]["metrics"]["accuracy"]["value"] == 0.0


def test_notices_are_on_stderr(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"answer": "a"}])
    result = run("score", path, "--format", "json")
    assert result.stderr == (
        "note: no record has an id: rows are numbered, each a task of its own\n"
    )
    assert json.loads(result.stdout)["notices"] == [
        "no record has an id: rows are numbered, each a task of its own"
    ]


# --- files beside the score ---

SAMPLES = (
    "id model correct squared_error prob_correct cot_tokens cot_chars step_count ra_ratio "
    "self_correcting prompt_tokens completion_tokens total_tokens latency_ms math_usr equations "
    "wrong_equations rounded_equations equals_signs cost_usd time_score cot"
)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_per_sample_values(suffix: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / f"rows{suffix}"
    assert run("score", data, "--by", "model", "--per-sample", out).exit_code == 0
    frame = pl.read_parquet(out) if suffix == ".parquet" else pl.read_ndjson(out)
    assert set(frame.columns) == set(SAMPLES.split())
    assert frame.columns[:2] == ["id", "model"]
    assert frame["id"].to_list() == ["q1", "q2", "q3", "q4"]
    first, *_, failed = frame.rows(named=True)
    assert first == {
        "id": "q1",
        "model": "m0",
        "correct": True,
        "squared_error": pytest.approx(0.01),
        "prob_correct": 0.9,
        "cot_tokens": 6,
        "cot_chars": 12,
        "step_count": 1,
        "ra_ratio": 6.0,
        "self_correcting": False,
        "prompt_tokens": 12000.0,
        "completion_tokens": 345.0,
        "total_tokens": 12345.0,
        "latency_ms": 80.25,
        "math_usr": 0.0,
        "equations": 1,
        "wrong_equations": 0,
        "rounded_equations": 0,
        "equals_signs": 1,
        "cost_usd": None,
        "time_score": 1.0,
        "cot": "1. 2 + 2 = 4",
    }
    assert set(failed.values()) == {"q4", "m1", None}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_per_sample_values_of_chosen_metrics_by_a_field_of_a_values_name(
    tmp_path: Path,
) -> None:
    out = tmp_path / "rows.parquet"
    args = (
        "--metric",
        "accuracy",
        "--by",
        "correct",
        "--map",
        "correct=model",
        "--map",
        "model=id",
    )
    path = write_lines(
        tmp_path / "b.jsonl", [{"id": "1", "model": True}, {"id": "2", "model": False}]
    )
    assert run("score", path, *args, "--per-sample", out).exit_code == 0
    assert pl.read_parquet(out).to_dict(as_series=False) == {
        "id": ["1", "2"],
        "correct": [True, False],
    }


def test_per_sample_values_of_files_that_differ_in_types(tmp_path: Path) -> None:
    numbers = write_lines(tmp_path / "a.jsonl", [{"id": "1", "run": 1}])
    words = write_lines(tmp_path / "b.jsonl", [{"id": "1", "run": "x"}])
    out = tmp_path / "rows.jsonl"
    args = ("--by", "run", "--metric", "accuracy", "--per-sample", out)
    assert run("score", numbers, words, *args).exit_code == 0
    runs = [json.loads(line)["run"] for line in out.read_text().splitlines()]
    assert runs == ["1.0", "x"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl"])
def test_per_sample_of_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert run("score", path, "--per-sample", tmp_path / name).exit_code == 3
    assert (tmp_path / name).exists()


def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [*ROWS, {"latency_ms": -1}])
    before = sorted(tmp_path.iterdir())
    out = (tmp_path / "rows.parquet", tmp_path / "score.json")
    refused("score", path, "--per-sample", out[0], "-o", out[1])
    assert sorted(tmp_path.iterdir()) == before


def test_bad_rows_are_skipped_counted_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        json.dumps(ROWS[0]),
        '{"answer":',
        '{"id": "x", "prob_correct": 2}',
        json.dumps(ROWS[2]),
    ]
    path.write_text("\n".join(lines))
    out = tmp_path / "bad.jsonl"
    result = run("score", path, "--on-bad", "skip", "--bad-rows", out, "--format", "json")
    assert result.exit_code == 0
    assert result.stderr == "note: 2 bad rows were left out\n"
    [source] = json.loads(result.stdout)["inputs"]
    assert (source["rows"], source["skipped"]) == (2, 2)
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        {
            "source": str(path),
            "row": 2,
            "problem": "not JSON: Expecting value at column 11",
            "content": '{"answer":',
        },
        {
            "source": str(path),
            "row": 3,
            "problem": "prob_correct: 2 is outside [0, 1]",
            "content": '{"id": "x", "prob_correct": 2}',
        },
    ]


def test_all_rows_bad_is_nothing_to_measure(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("x\n")
    assert run("score", path, "--on-bad", "skip").exit_code == 3


# --- mistakes in the data ---


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


# --- mistakes in the command ---


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
        (("--bins", "0"), "--bins 0: must be at least 1\n  10 is the usual number"),
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
        (("score", "x.jsonl", "--profile", "x"), "'x' is not one of 'reasoning'"),
        (("score", "x.jsonl", "--on-bad", "x"), "'x' is not one of 'stop', 'skip'"),
        (("score", "x.jsonl", "--bins", "x"), "'x' is not a valid integer"),
        (("score", "x.jsonl", "--bye", "x"), "No such option"),
        (("explain", "accuracy"), "Missing argument 'FILES…'"),
        (("scroe",), "No such command 'scroe'"),
    ],
)
def test_usage_errors_are_exit_code_2(args: tuple[str, ...], message: str) -> None:
    assert message in refused(*args)


# --- hostile names ---

HOSTILE = "\x1b[31mred\x1b[0m\r\n\u202e\x07"


@pytest.mark.parametrize("output_format", ["table", "markdown"])
def test_escape_codes_do_not_reach_the_terminal(output_format: str, tmp_path: Path) -> None:
    rows = [{"id": HOSTILE, "model": HOSTILE, "answer": HOSTILE}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    out = run("score", path, "--by", "model", "--by", "answer", "--format", output_format).output
    assert "\ufffd[31mred\ufffd[0m" in out.replace("\\", "")
    for character in "\x1b\r\x07\u202e":
        assert character not in out


def test_escape_codes_in_what_is_explained_and_in_messages(tmp_path: Path) -> None:
    rows = [{"id": HOSTILE, "model": HOSTILE, "answer": HOSTILE}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    explained = run("explain", "sce", path, "--by", "model").output
    assert explained.count("\ufffd[31mred\ufffd[0m") >= 3
    told = refused("score", path, "--by", HOSTILE)
    for character in "\x1b\r\x07\u202e":
        assert character not in explained
        assert character not in told


@pytest.mark.parametrize(
    ("name", "markdown"),
    [
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)>"),
        ("`code`", r"\`code\`"),
        ("![x](http://evil.example/)", r"!\[x\](http://evil.example/)"),
        ("a\n| b |", "a\ufffd\\| b \\|"),
    ],
)
def test_a_name_cannot_break_out_of_markdown(name: str, markdown: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "model": name, "answer": "a"}])
    args = ("--by", "model", "--format", "markdown", "--profile", "reasoning")
    lines = run("score", path, *args).stdout.splitlines()
    assert lines[0] == f"| metric | {markdown} |"


def test_a_name_cannot_break_out_of_html() -> None:
    name = "\"><script>alert('x')</script>&"
    rows = [{"id": "1", "model": name, "answer": "a"}, {"id": "1", "model": "b", "cot": "c"}]
    page = cal.score(rows, by="model")._repr_html_()
    assert "<script" not in page
    assert "&quot;&gt;&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;" in page


def test_groups_of_the_same_looks_keep_their_reasons() -> None:
    rows = [{"m": "(none)", "answer": "a"}, {"m": None, "cot": "c"}]
    shown = str(cal.score(rows, by="m"))
    assert "without a value in (none): sce, sce_normalized (no record has an answer)" in shown
    assert "(no record has cot)" in shown


# --- the other commands ---


def test_the_catalogue_lists_every_metric() -> None:
    out = run("metrics").stdout
    for name, metric in catalogue().items():
        assert name in out
        assert metric.defined_in in out


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_a_metric_in_full(name: str) -> None:
    metric = catalogue()[name]
    words = " ".join(run("metrics", name).stdout.split())
    for text in (name, metric.says, metric.formula, metric.nulls, metric.defined_in):
        assert " ".join(text.split()) in words


def test_an_unknown_metric_names_the_nearest() -> None:
    assert (
        refused("metrics", "breir") == "error: no metric is called breir\n  did you mean brier?\n"
    )
    assert refused("metrics", "zzz").startswith(
        "error: no metric is called zzz\n  known: accuracy, "
    )
    told = refused("explain", "lateny_p95_ms", "x.jsonl")
    assert told == "error: no metric is called lateny_p95_ms\n  did you mean latency_p95_ms?\n"


def test_the_catalogue_as_json() -> None:
    rows = json.loads(run("metrics", "--format", "json").stdout)
    assert [row["name"] for row in rows] == list(catalogue())
    [row] = json.loads(run("metrics", "ece", "--format", "json").stdout)
    assert (row["range"], row["better"], row["spec"]) == ("[0, 1]", "lower", "Z 3.2")


def test_help_names_every_command_and_the_exit_codes() -> None:
    out = run("--help").stdout
    assert all(word in out for word in ("score", "explain", "metrics", "Exit codes"))
    assert run("--version").stdout == f"calipers, version {cal.__version__}\n"


# --- as a process ---


def test_standard_input_is_a_file_like_any(data: str) -> None:
    piped = shell("score", "-", "--by", "model", "--format", "json", stdin=Path(data).read_bytes())
    assert (piped.returncode, piped.stderr) == (0, b"")
    score = json.loads(piped.stdout)
    assert score["inputs"] == [{"path": "-", "rows": 4, "sha256": None}]
    assert score["groups"] == cal.score(data, by="model").to_dict()["groups"]


def test_standard_input_beside_files_packed_and_bad(data: str) -> None:
    packed = gzip.compress(b'{"id": "q9"}\n')
    assert run("score", data, "-", "--format", "csv", input=packed).exit_code == 0
    bad = run("score", "-", input=b'{"id": "q9"}\n{"id": }\n')
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: -:2: not JSON: Expecting value at column 8\n")


def test_empty_standard_input_is_exit_code_3() -> None:
    result = run("score", "-", input=b"")
    assert (result.exit_code, result.stdout) == (3, "No records.\n")
    assert result.stderr == "empty: no records in -\n"


@pytest.mark.parametrize("args", first_of([["score"], ["metrics"]]), ids=" ".join)
def test_a_terminal_that_knows_only_ascii(args: list[str], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": "1", "model": "\u00e9", "answer": "a"}])
    rest = () if args == ["metrics"] else (path, "--by", "model")
    result = shell(*args, *rest, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"sce" in result.stdout


@pytest.mark.parametrize(
    "args", first_of([["score", "--format", "json"], ["metrics"]]), ids=" ".join
)
def test_a_reader_that_has_seen_enough(args: list[str], data: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "calipers", *args, *(() if args == ["metrics"] else (data,))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_message(data: str) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "calipers", "score", data, "--format", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: No space left on device\n")
    assert b"Traceback" not in result.stderr
