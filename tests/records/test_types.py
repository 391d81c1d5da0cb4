"""What a field is depends neither on which rows come first nor on how they are cut into files."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import calipers as cal

Row = dict[str, Any]
YES = True
LATE = 250  # rows: more than a reader looks at before it begins


def make_rows(field: str, *odd: Any, usual: Any = 1) -> list[Row]:
    values = [*([usual] * LATE), *odd]
    return [
        {"id": f"task {n}", "answer": "1", "target": "1"}
        | ({} if value is None else {field: value})
        for n, value in enumerate(values)
    ]


def write(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def list_groups(data: Any, by: str = "level", **options: Any) -> list[tuple[Any, int]]:
    groups = cal.score(data, by=by, metrics=["accuracy"], **options).groups
    return [(group.by[by], group.records) for group in groups]


def cut(folder: Path, rows: list[Row], parts: int) -> list[Path]:
    return [write(folder / f"{n}.jsonl", rows[n::parts]) for n in range(parts)]


def zip_rows(folder: Path, rows: list[Row]) -> Path:
    path = folder / "a.jsonl.gz"
    path.write_bytes(gzip.compress(write(folder / "a.jsonl", rows).read_bytes()))
    return path


def list_ways(folder: Path, rows: list[Row]) -> Iterator[tuple[str, Any]]:
    yield "lines", write(folder / "lines.jsonl", rows)
    yield "reversed", write(folder / "reversed.jsonl", rows[::-1])
    yield "two files", cut(folder, rows, 2)
    yield "ten files", cut(folder, rows, 10)
    usual, odd = rows[:LATE], rows[LATE:]
    yield (
        "the odd ones first, in a file of their own",
        [
            write(folder / "odd.jsonl", odd),
            write(folder / "usual.jsonl", usual),
        ],
    )
    yield "gz", zip_rows(folder, rows)
    yield "memory", rows
    yield "memory, reversed", rows[::-1]


MIXED = {
    "a late text": (make_rows("level", "hard"), [("1", LATE), ("hard", 1)]),
    "a late boolean": (make_rows("level", YES), [("1", LATE), ("true", 1)]),
    "a late number as text": (make_rows("level", "1"), [("1", LATE + 1)]),
    "late numbers only": (make_rows("level", 1, 2, usual=None), [(1, 1), (2, 1), (None, LATE)]),
    "late booleans only": (make_rows("level", YES, usual=None), [(True, 1), (None, LATE)]),
    "a late number among texts": (make_rows("level", 7, usual="x"), [("7", 1), ("x", LATE)]),
    "a late list": (make_rows("level", [1]), [("1", LATE), ("[1]", 1)]),
    "a number too wide for a double": (
        make_rows("level", 2**53, 2**53 + 1),
        [("1", LATE), ("9007199254740992", 1), ("9007199254740993", 1)],
    ),
    "numbers": (make_rows("level", 2.5, 3.0), [(1, LATE), (2.5, 1), (3, 1)]),
}


@pytest.mark.parametrize("case", MIXED)
def test_groups_are_the_same_however_the_rows_come(case: str, tmp_path: Path) -> None:
    rows, expected = MIXED[case]
    for way, data in list_ways(tmp_path, rows):
        assert list_groups(data) == expected, way


@pytest.mark.parametrize("case", MIXED)
def test_and_through_a_pipe(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, expected = MIXED[case]
    for order in (rows, rows[::-1]):
        lines = write(tmp_path / "a.jsonl", order).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        assert list_groups("-") == expected


def test_numbers_in_one_file_and_texts_in_a_table(tmp_path: Path) -> None:
    numbers = write(tmp_path / "a.jsonl", [{"id": "a", "level": 1, "answer": "1", "target": "1"}])
    pl.DataFrame({"id": ["b"], "level": ["1"], "answer": ["1"], "target": ["1"]}).write_parquet(
        tmp_path / "b.parquet"
    )
    pl.DataFrame({"id": ["c"], "level": [1], "answer": ["1"], "target": ["1"]}).write_parquet(
        tmp_path / "c.parquet"
    )
    (tmp_path / "d.csv").write_text("id,level,answer,target\nd,1,1,1\n")
    table, whole, cells = (tmp_path / name for name in ("b.parquet", "c.parquet", "d.csv"))
    assert list_groups([numbers, whole]) == [(1, 2)]
    assert list_groups([numbers, table]) == [("1", 2)]
    assert list_groups([whole, cells, numbers]) == [("1", 3)]


def test_fields_inside_objects(tmp_path: Path) -> None:
    rows = [{"meta": {"level": row.pop("level")}, **row} for row in make_rows("level", "hard")]
    expected = [("1", LATE), ("hard", 1)]
    for way, data in list_ways(tmp_path, rows):
        assert list_groups(data, "meta.level") == expected, way
    texts = [{**row, "meta": json.dumps(row["meta"])} for row in rows]
    pl.DataFrame(texts).write_csv(tmp_path / "a.csv")
    assert list_groups(tmp_path / "a.csv", "meta.level") == expected


@pytest.mark.parametrize("field", ["run", "predicted"])
def test_a_run_named_late_is_read_as_one_named_early(field: str, tmp_path: Path) -> None:
    rows = make_rows(field, "retry")
    early = cal.score(write(tmp_path / "early.jsonl", rows[::-1]), on_bad="skip")
    late = cal.score(write(tmp_path / "late.jsonl", rows), on_bad="skip")
    assert (early.records, late.records) == (LATE + 1, LATE + 1)
    assert late.groups[0].metrics["accuracy"] == early.groups[0].metrics["accuracy"]


@pytest.mark.parametrize("order", [list, reversed])
def test_a_measured_field_is_refused_for_the_same_row(
    order: Callable[[list[Row]], Any], tmp_path: Path
) -> None:
    rows = list(order(make_rows("grade", 0.5, usual=True)))
    found = cal.score(write(tmp_path / "a.jsonl", rows), metrics=["mean(grade)"], on_bad="skip")
    assert (found.records, found.groups[0].metrics["mean(grade)"].value) == (1, 0.5)


@pytest.mark.parametrize("order", [list, reversed])
def test_what_is_written_has_the_same_columns(
    order: Callable[[list[Row]], Any], tmp_path: Path
) -> None:
    rows = list(order(make_rows("level", "hard")))
    cal.convert(cut(tmp_path, rows, 3), tmp_path / "all.parquet")
    table = pl.read_parquet(tmp_path / "all.parquet")
    assert sorted(table["level"].to_list()) == ["1"] * LATE + ["hard"]
    assert sorted(cal.read(cut(tmp_path, rows, 3))["level"].to_list()) == ["1"] * LATE + ["hard"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_whole_numbers_beyond_doubles_are_written_as_they_are(suffix: str, tmp_path: Path) -> None:
    wide = [2**53 + 1, 2**53, -(2**60) - 1]
    path = write(tmp_path / "a.jsonl", [{"id": str(e), "trace_no": e} for e in wide])
    cal.convert(path, tmp_path / f"b{suffix}")
    for data in (path, tmp_path / f"b{suffix}"):
        groups = cal.score(data, by="trace_no", metrics=["sce"], map={"answer": "id"}).groups
        assert {int(str(each.by["trace_no"])) for each in groups} == {*wide}


def test_a_pandas_column_may_hold_values_of_several_types() -> None:
    rows = [
        {"id": "a", "answer": "1", "target": "1", "level": 1},
        {"id": "b", "answer": "2", "target": "1", "level": "hard"},
        {"id": 3, "answer": None, "target": "1", "level": None},
    ]
    expected = cal.score(rows, by="level").to_dict()["groups"]
    assert cal.score(pd.DataFrame(rows), by="level").to_dict()["groups"] == expected


@pytest.mark.parametrize("tags", ["urgent", "[1", ["a", "b"], ""])
def test_a_tag_may_be_a_text_wherever_it_stands(tags: Any, tmp_path: Path) -> None:
    rows = [{"id": "a", "answer": "1", "target": "1", "tags": tags}]
    path = write(tmp_path / "a.jsonl", rows)
    expected = [each.by for each in cal.score(path, by="tags", metrics=["accuracy"]).groups]
    for data in (rows, pl.DataFrame(rows)):
        found = cal.score(data, by="tags", metrics=["accuracy"]).groups
        assert [each.by for each in found] == expected
