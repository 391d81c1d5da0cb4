"""`--on-bad null`: a number outside its range is a null, is counted, and its row stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import DataError
from tests.commands import run
from tests.files import write_lines

ROWS: list[dict[str, Any]] = [
    {"id": "a", "passed": True, "impl_rate": 1.028, "cost_usd": 0.5, "prob_correct": 0.5},
    {"id": "b", "passed": False, "impl_rate": 0.5, "cost_usd": -1.0, "prob_correct": 1.5},
    {"id": "c", "passed": True, "impl_rate": 0.75, "cost_usd": 0.25, "prob_correct": None},
]
NULLED = 3


def _write(folder: Path, kind: str) -> Any:
    if kind == "records":
        return ROWS
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        return write_lines(path, ROWS)
    if kind == "json":
        path.write_text(json.dumps(ROWS), encoding="utf-8")
        return path
    frame = pl.DataFrame(ROWS)
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "records"])
def test_the_row_stays_in_what_it_has(tmp_path: Path, kind: str) -> None:
    data = _write(tmp_path, kind)
    with pytest.raises(DataError, match=r"1\.028 is outside"):
        cal.score(data)
    score = cal.score(data, on_bad="null", profile="tiers")
    assert score.records == len(ROWS)
    assert score["pass_rate"].value == pytest.approx(2 / 3)
    assert score["pass_rate"].n == 3
    assert (score["impl_rate"].value, score["impl_rate"].missing) == (0.625, 1)
    assert (score["cost_usd"].value, score["cost_usd"].missing) == (0.375, 1)
    seen = cal.score(data, on_bad="null")
    assert seen.inputs[0].nulled == NULLED
    assert seen.to_dict()["inputs"][0]["nulled"] == NULLED
    assert "3 values outside their range were made null" in str(seen.notices)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_what_is_no_number_still_stops(tmp_path: Path, kind: str) -> None:
    rows = [{"id": "a", "passed": "perhaps"}, {"id": "b", "passed": "true"}]
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        write_lines(path, rows)
    else:
        frame = pl.DataFrame(rows)
        frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    with pytest.raises(DataError, match="perhaps"):
        cal.score(path, on_bad="null")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_score_of_a_judge_is_null_and_its_vote_counts(tmp_path: Path, kind: str) -> None:
    judgments = [
        {"judge": "x", "passed": True, "weighted_score": 1.5},
        {"judge": "y", "summary": {"passed": True, "weighted_score": 0.5}},
        {"judge": "z", "summary": {"passed": True, "weighted_score": -0.5}},
    ]
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        write_lines(path, [{"id": "a", "judgments": judgments}])
    else:
        rows = {"id": ["a"], "judgments": [json.dumps(judgments)]}
        pl.DataFrame(rows).write_parquet(path)
    with pytest.raises(DataError, match="judgment 1: weighted_score"):
        cal.score(path, profile="tiers")
    score = cal.score(path, profile="tiers", on_bad="null")
    assert (score["pass_rate"].value, score["impl_rate"].value) == (1.0, 0.5)


def test_every_command_takes_it(tmp_path: Path) -> None:
    path, bad = write_lines(tmp_path / "rows.jsonl", ROWS), tmp_path / "bad.jsonl"
    out = tmp_path / "out.jsonl"
    both = [str(path), str(path)]
    for command in (
        ["score", str(path), "--bad-rows", str(bad)],
        ["convert", str(path), "-o", str(out)],
        ["compare", *both, "--metric", "impl_rate"],
        ["rank", str(path), "--by", "id", "--metric", "cost_usd", "--unpaired"],
        ["explain", "impl_rate", str(path)],
        ["report", str(path), "-o", str(tmp_path / "report.html")],
    ):
        result = run(*command, "--on-bad", "null")
        assert result.exit_code == 0, (command, result.output)
    assert [json.loads(line)["stays"] for line in bad.read_text().splitlines()] == [True] * NULLED
    read = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in read] == ["a", "b", "c"]
    assert [row.get("impl_rate") for row in read] == [None, 0.5, 0.75]


def test_a_gate_on_such_records_is_incomplete(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", ROWS)
    gate = cal.gate(path, policy={"thresholds": {"blocking": {"pass_rate": 0.5}}}, on_bad="null")
    assert gate.verdict == "incomplete"
    assert "values outside their range, made null: 1" in str(gate.to_dict())
