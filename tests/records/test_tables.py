"""Tables with types: their columns become the record's fields, or the row is named."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.records.tables_at_hand import list_keys, read_message

pd = pytest.importorskip("pandas")


def frames(columns: dict[str, Any], tmp_path: Path) -> list[Any]:
    """The same table as Polars, lazy Polars, Arrow, pandas and Parquet."""
    frame = pl.DataFrame(columns)
    path = tmp_path / "table.parquet"
    frame.write_parquet(path)
    return [
        frame,
        frame.lazy(),
        frame.to_arrow(),
        pd.DataFrame(frame.to_dict(as_series=False)),
        path,
    ]


def test_every_table_gives_the_same_score(tmp_path: Path) -> None:
    columns = {
        "id": ["1", "2", "3"],
        "model": ["a", "b", None],
        "answer": ["4", None, "7.0"],
        "target": ["4", "5", "7"],
        "latency_ms": [1.5, math.nan, 3.0],
        "correct": [None, None, False],
    }
    tables = frames(columns, tmp_path)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    groups = [cal.score(table, by="model").to_dict()["groups"] for table in [*tables, rows]]
    assert [group["by"]["model"] for group in groups[0]] == ["a", "b", None]
    assert groups[0][2]["metrics"]["accuracy"]["value"] == 0.0  # the recorded `correct` wins
    assert groups[0][1]["metrics"]["latency_mean_ms"]["value"] is None  # NaN is null
    assert all(each == groups[0] for each in groups)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pl.Series([1, 20, None]), ["1", "20", None]),
        (pl.Series([1, 20, None], dtype=pl.UInt8), ["1", "20", None]),
        (pl.Series([18.5, 20.0, math.nan]), ["18.5", "20.0", None]),
        (pl.Series([18.5, 0.1, None], dtype=pl.Float32), ["18.5", "0.1", None]),
        (pl.Series([True, False, None]), ["true", "false", None]),
        (pl.Series(["a", "b", None], dtype=pl.Categorical), ["a", "b", None]),
        (pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"])), ["a", "b", None]),
        (pl.Series([Decimal("1.50"), Decimal("2.00"), None]), ["1.50", "2.00", None]),
        (pl.Series([dt.date(2025, 1, 31), None, None]), ["2025-01-31", None, None]),
        (pl.Series([None, None, None]), [None, None, None]),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pl.Series) else "",
)
def test_a_typed_column_in_a_text_field(
    column: pl.Series, texts: list[str | None], tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"answer": column}).write_parquet(path)
    assert cal.read(path)["answer"].to_list() == texts


def test_whole_numbers_as_answers_are_compared_by_value(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"answer": [18, 7], "target": [18.0, 8.0]}).write_parquet(path)
    assert cal.score(path).groups[0].metrics["accuracy"].value == 0.5


def test_number_columns_of_every_width(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for dtype in (pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.Decimal(10, 2), pl.Null):
        values = [None, None] if dtype == pl.Null else [1, None]
        pl.DataFrame(
            {"latency_ms": pl.Series(values, dtype=dtype), "id": ["1", "2"]}
        ).write_parquet(path)
        assert cal.read(path)["latency_ms"].to_list() == [None if dtype == pl.Null else 1.0, None]


@pytest.mark.parametrize(
    ("field", "values", "problem"),
    [
        ("prob_correct", [0.5, 1.5], "prob_correct: 1.5 is outside [0, 1]"),
        ("prob_correct", [None, "0.5"], 'prob_correct: "0.5" is not a number'),
        ("latency_ms", [0.0, math.inf], "latency_ms: Infinity is not a finite number"),
        ("latency_ms", [None, True], "latency_ms: true is not a number"),
        ("correct", [None, 1], "correct: 1 is not true or false"),
        ("correct", [None, "true"], 'correct: "true" is not true or false'),
        ("answer", [None, ["a", "b"]], 'answer: ["a", "b"] is a list, not a text'),
        ("answer", [None, {"a": 1}], 'answer: {"a": 1} is an object, not a text'),
        ("answer", [1.0, -math.inf], "answer: -Infinity is not a finite number"),
        ("id", [None, b"x"], "id: \"b'x'\" is an object, not a text"),
    ],
)
def test_a_wrong_type_or_value_names_row_and_field(
    field: str, values: list[Any], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({field: values}).write_parquet(path)
    assert (
        read_message(path, metrics=["accuracy", "brier", "latency_mean_ms"])
        == f"{path}:2: {problem}"
    )
    rows = [{field: value} for value in values]
    told = read_message(rows, metrics=["accuracy", "brier", "latency_mean_ms"])
    assert told == f"<records>:2: {problem}"


def test_bad_rows_of_a_table_are_left_out(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a", "b", "c"], "latency_ms": [1.0, -1.0, 4.0]})
    score = cal.score(frame, on_bad="skip", bad_rows=tmp_path / "bad.jsonl")
    assert score.groups[0].metrics["latency_mean_ms"].value == 2.5
    bad = json.loads((tmp_path / "bad.jsonl").read_text())
    assert (bad["source"], bad["row"]) == ("<table>", 2)
    assert json.loads(bad["content"]) == {"id": "b", "latency_ms": -1.0}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_far_down_have_their_number(suffix: str, tmp_path: Path) -> None:
    count = 120_000  # more than a slice
    frame = pl.DataFrame({"latency_ms": [1.0] * (count - 1) + [-1.0]})
    path = tmp_path / f"a{suffix}"
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    assert read_message(path).startswith(f"{path}:{count}: latency_ms: -1")


@pytest.mark.parametrize("content", [b"", b"PAR1xxxxPAR1", b'{"answer": "a"}\n'])
def test_what_is_no_parquet_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    assert read_message(path).startswith(f"{path}: cannot be read: ")


def test_a_parquet_file_cut_short_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"answer": ["a"] * 1000}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])
    assert read_message(path).startswith(f"{path}: cannot be read: ")


def test_a_table_with_none_of_the_fields_still_has_its_records() -> None:
    table = pl.DataFrame({"other": [1, 2, 3]})
    score = cal.score(table, metrics=["accuracy"])
    assert (score.records, score.groups[0].metrics["accuracy"].value) == (3, None)
    with pytest.raises(cal.DataError, match="nothing can be measured"):
        cal.score(table)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series([10, 9, 10]), [9, 10]),
        (pl.Series([0.5, 0.25, math.nan]), [0.25, 0.5, None]),
        (pl.Series([True, False, None]), [False, True, None]),
        (pl.Series(["b", "a", None], dtype=pl.Categorical), ["a", "b", None]),
        (pl.Series([dt.date(2025, 1, 31), None, None]), ["2025-01-31", None]),
        (pl.Series([Decimal("1.5"), Decimal("0.5"), None]), [0.5, 1.5, None]),
        (pl.Series([["x"], ["y"], None]), ['["x"]', '["y"]', None]),
        (
            pl.Series([9007199254740993, 9007199254740992, None]),
            ["9007199254740992", "9007199254740993", None],  # a double would make them one
        ),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pl.Series) else "",
)
def test_any_column_can_be_grouped_by(
    column: pl.Series, expected: list[Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"mine": column}).write_parquet(path)
    assert list_keys(cal.score(path, by="mine", metrics=["accuracy"]), "mine") == expected


def test_numbers_of_different_files_fall_into_the_same_groups(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"run": 1}\n{"run": 2.0}\n')
    pl.DataFrame({"run": [1, 2]}).write_parquet(tmp_path / "b.parquet")
    pl.DataFrame({"run": [1.0, 2.5]}).write_parquet(tmp_path / "c.parquet")
    paths = [tmp_path / "a.jsonl", tmp_path / "b.parquet", tmp_path / "c.parquet"]
    score = cal.score(paths, by="run", metrics=["accuracy"])
    assert [(group.by["run"], group.records) for group in score.groups] == [
        (1, 3),
        (2, 2),
        (2.5, 1),
    ]


@pytest.mark.parametrize("value", [math.inf, dt.timedelta(days=1), b"x"])
def test_what_cannot_be_a_group_is_refused(value: object) -> None:
    assert read_message(pl.DataFrame({"mine": [value]}), by="mine").startswith("<table>:1: mine: ")
