"""What the command line prints."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import calipers as cal
from tests.commands import run
from tests.files import write_lines

TABLE = """
metric                     m0               m1
 ───────────────────────────────────────────────────
 records                     2                2
 failed calls                0                1
 accuracy         50 % [3, 97]   100 % [5, 100]
 latency_p95_ms   120 [80, —]*                —   ms

  18 more metrics (calipers score --all): brier, ece, sce, sce_normalized, cot_tokens_mean, cot_chars_mean,
  step_count_mean, ra_ratio_mean, self_correction_rate, prompt_tokens_mean, completion_tokens_mean, total_tokens_mean,
  latency_mean_ms, math_usr, latency_p50_ms, latency_p99_ms, token_efficiency, time_score
  without a value in m1: latency_p95_ms (no record has latency_ms)
  * latency_p95_ms: no upper bound: 2 rows are too few for a bound within the data
  ! m1: 1 of 2 calls failed and are in no metric; --errors fail counts them as failures
"""


def test_the_table(data: str) -> None:
    result = run("score", data, "--by", "model")
    assert result.exit_code == 0
    assert result.stderr == ""
    plain = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert plain.strip() == TABLE.strip()


def test_many_groups_are_tables_one_below_the_other(tmp_path: Path) -> None:
    rows = [{"id": "1", "model": f"model-{number:02}", "answer": "a"} for number in range(40)]
    out = run("score", write_lines(tmp_path / "a.jsonl", rows), "--by", "model").stdout
    assert out.count(" metric ") > 1 or out.count(" records ") > 1
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
        "| accuracy | 50 % [3, 97] | 100 % [5, 100] |",
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
