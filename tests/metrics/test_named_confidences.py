"""Several confidences with names: each name's metrics are those of its numbers alone."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.records.fields import BadValue, find_field
from tests.engines_at_hand import needs_spark
from tests.files import write_lines

NAMES = ("p_true", "mean", "gpt 4")
METRICS = ("brier", "ece", "auroc")


def _rows(count: int = 60, seed: int = 3) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": f"t{number % 20}",
            "run": number // 20,
            "correct": chance.random() < 0.6,
            "prob_correct": {
                name: round(chance.random(), 2) for name in NAMES if chance.random() < 0.9
            },
        }
        for number in range(count)
    ]


def _only(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{**row, "prob_correct": row["prob_correct"].get(name)} for row in rows]


def _check(score: cal.Score, rows: list[dict[str, Any]]) -> None:
    found = score.groups[0].metrics
    for name in NAMES:
        alone = cal.score(_only(rows, name)).groups[0].metrics
        for metric in METRICS:
            expected, ours = alone[metric].to_dict(), found[f"{metric}({name})"].to_dict()
            numbers = {key for key, each in expected.items() if isinstance(each, float)}
            for key, each in expected.items():
                assert ours[key] == (pytest.approx(each, rel=1e-9) if key in numbers else each), key
    assert not {*METRICS} & {*found}


def test_each_name_is_measured_as_if_it_were_alone() -> None:
    rows = _rows()
    _check(cal.score(rows), rows)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "csv"])
def test_every_format_holds_them(suffix: str, tmp_path: Path) -> None:
    rows, path = _rows(), tmp_path / f"rows.{suffix}"
    if suffix == "jsonl":
        write_lines(path, rows)
    elif suffix == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:  # an object in a cell is JSON, and no name is known before it is asked for
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, rows[0].keys())
            table.writeheader()
            table.writerows(
                {**row, "prob_correct": json.dumps(row["prob_correct"])} for row in rows
            )
        names = [f"{metric}({name})" for name in NAMES for metric in METRICS]
        return _check(cal.score(path, metrics=names), rows)
    return _check(cal.score(path), rows)


@needs_spark
def test_spark_gives_the_same(tmp_path: Path) -> None:
    rows = _rows()
    path = write_lines(tmp_path / "rows.jsonl", rows)
    _check(cal.score(path, engine="spark"), rows)


def test_rows_with_one_confidence_beside_rows_with_several(tmp_path: Path) -> None:
    rows = _rows()
    plain = [{**row, "id": f"p{row['id']}", "prob_correct": 0.5} for row in rows]
    found = cal.score(write_lines(tmp_path / "a.jsonl", [*rows, *plain])).groups[0].metrics
    assert (found["brier"].n, found["brier"].value) == (60, 0.25)
    assert found["brier(mean)"].value == cal.score(_only(rows, "mean")).groups[0]["brier"].value


def test_names_under_another_field(tmp_path: Path) -> None:
    rows = [{**row, "sure": row.pop("prob_correct")} for row in _rows()]
    path = write_lines(tmp_path / "a.jsonl", rows)
    _check(cal.score(path, map={"prob_correct": "sure"}), _rows())


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    rows = _rows()
    with pytest.raises(cal.UsageError, match=r"no record has a value in prob_correct\.p_tru"):
        cal.score(rows, metrics=["brier(p_tru)"])
    with pytest.raises(cal.UsageError, match="brier: prob_correct holds confidences with names"):
        cal.score(rows, metrics=["brier"])
    with pytest.raises(BadValue, match=r"p_true: 1.5 is outside \[0, 1\]"):
        find_field("prob_correct").read({"p_true": 1.5})
    bad = write_lines(tmp_path / "bad.jsonl", [*rows, {"id": "x", "prob_correct": {"mean": 7}}])
    with pytest.raises(cal.DataError, match=r"bad.jsonl:61: prob_correct.*: 7 is outside \[0, 1\]"):
        cal.score(bad)


def test_compare_gate_and_convert_know_them(tmp_path: Path) -> None:
    base, other = _rows(), _rows(seed=4)
    [named] = cal.compare(base, other, metrics=["ece(mean)"]).pairs
    [alone] = cal.compare(_only(base, "mean"), _only(other, "mean"), metrics=["ece"]).pairs
    assert named.metrics["ece(mean)"].difference == pytest.approx(alone.metrics["ece"].difference)
    policy = {"thresholds": {"blocking": {"brier(p_true)": "<= 0.9", "auroc(mean)": ">= 0.99"}}}
    checks = {check.name: check.verdict for check in cal.gate(base, policy=policy).checks}
    assert checks == {"brier(p_true)": "pass", "auroc(mean)": "fail"}
    cal.convert(base, tmp_path / "all.parquet")
    _check(cal.score(tmp_path / "all.parquet"), base)
