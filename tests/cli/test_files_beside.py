"""Files beside the score: values per sample, and bad rows."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.scored_data import ROWS
from tests.commands import refused, run
from tests.files import write_lines

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
    assert runs == ["1", "x"]


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
