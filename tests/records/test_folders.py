"""Folders of tables: their parts are one table, and a name may hold a field."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import calipers as cal
from tests.records.tables_at_hand import read_message


def test_folders_of_key_and_value_become_columns(tmp_path: Path) -> None:
    for model, seed, answer in [("a", 9, 1), ("a", 10, 2), ("b", 9, 1)]:
        folder = tmp_path / "lake" / f"model={model}" / f"seed={seed}"
        folder.mkdir(parents=True)
        pl.DataFrame({"answer": [answer], "target": ["1"]}).write_parquet(folder / "p.parquet")
    score = cal.score(tmp_path / "lake", by=["model", "seed"])
    found = [(*group.by.values(), group.metrics["accuracy"].value) for group in score.groups]
    assert found == [("a", 9, 1.0), ("a", 10, 0.0), ("b", 9, 1.0)]
    assert score.to_dict()["inputs"] == [
        {"path": str(tmp_path / "lake"), "rows": 3, "sha256": None}
    ]


def test_parts_may_differ_in_columns_and_types(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1"], "answer": [4], "target": ["4"], "latency_ms": [5]}).write_parquet(
        tmp_path / "a.parquet"
    )
    pl.DataFrame(
        {"id": ["2", "3"], "answer": ["x", None], "target": ["4"] * 2, "error": [None, "boom"]}
    ).write_parquet(tmp_path / "b.parquet")
    pl.DataFrame({"id": ["4"], "answer": ["4"], "latency_ms": [5.5]}).write_parquet(
        tmp_path / "c.parquet"
    )
    group = cal.score(tmp_path).groups[0]
    assert (group.records, group.errors) == (4, 1)
    assert group.metrics["accuracy"].value == 0.5
    assert group.metrics["latency_mean_ms"].value == 5.25


def test_what_writers_hide_in_a_folder_is_no_part(tmp_path: Path) -> None:
    for name in ("a.parquet", "_temporary/b.parquet", ".staging/c.parquet", "_d.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pl.DataFrame({"id": [name]}).write_parquet(path)
    (tmp_path / "_SUCCESS").touch()
    assert cal.score(tmp_path, metrics=["accuracy"]).records == 1


def test_a_bad_row_in_a_folder_names_its_part(tmp_path: Path) -> None:
    for number, latencies in enumerate([[1.0, 2.0], [3.0, -1.0, -2.0], [4.0]]):
        pl.DataFrame({"latency_ms": latencies}).write_parquet(tmp_path / f"{number}.parquet")
    assert read_message(tmp_path) == f"{tmp_path / '1.parquet'}:2: latency_ms: -1.0 is negative"
    score = cal.score(tmp_path, on_bad="skip", bad_rows=tmp_path / "bad.jsonl")
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [row["row"] for row in bad] == [2, 3]
    assert (score.inputs[0].rows, score.inputs[0].skipped) == (4, 2)


def test_a_folder_without_parts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert read_message(tmp_path) == f"{tmp_path}: a folder without Parquet parts"
