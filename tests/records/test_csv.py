"""CSV: cells become the record's types, or the row is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

import calipers as cal
from calipers.records.readers import csv_file
from tests.records.tables_at_hand import HEADER, read_message, write_csv


def test_cells_take_the_records_types(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "a.csv", "1,18.50,18.5,0.5,,10\n2,007,8, 1 ,TRUE,NaN\n3,a,a,,0,1e3\n"
    )
    read = cal.read(path)
    assert read["id"].to_list() == ["1", "2", "3"]
    assert read["answer"].to_list() == ["18.50", "007", "a"]
    assert read["prob_correct"].to_list() == [0.5, 1.0, None]
    assert read["correct"].to_list() == [None, True, False]
    assert read["latency_ms"].to_list() == [10.0, None, 1000.0]


def test_quoted_cells_hold_line_breaks_commas_and_quotes(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", '1,"a\nb","say ""x"", y",,,\n2,"","",,,\n')
    read = cal.read(path)
    assert read["answer"].to_list() == ["a\nb", ""]
    assert read["target"].to_list() == ['say "x", y', ""]


@pytest.mark.parametrize("size", [7, 64, 65, 66, 67, 68, 69, 70, 1000])
def test_rows_are_whole_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    row = '{},"line\n{},""quoted"", twice\n",4,0.5,,10\n'
    path = write_csv(tmp_path / "a.csv", "".join(row.format(n, n) for n in range(20)))
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", size)
    read = cal.read(path)
    assert read["answer"].to_list() == [f'line\n{n},"quoted", twice\n' for n in range(20)]


@pytest.mark.parametrize(
    "content",
    [
        HEADER.replace("\n", "\r\n") + "1,4,4,0.5,,10\r\n2,4,5,0.5,,20\r\n",
        "\ufeff" + HEADER + "1,4,4,0.5,,10\n2,4,5,0.5,,20",
        HEADER + "\n1,4,4,0.5,,10\n\n\n2,4,5,0.5,,20\n,,,,,\n\n",
    ],
    ids=["crlf", "byte order mark", "blank lines"],
)
def test_what_stands_around_the_cells_does_not_matter(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8", newline="")
    score = cal.score(path)
    assert score.records == 2
    assert score.groups[0].metrics["accuracy"].value == 0.5
    assert score.groups[0].metrics["latency_mean_ms"].value == 15.0


@pytest.mark.parametrize("separator", [";", "\t"], ids=["semicolon", "tab"])
def test_cells_may_be_separated_by_semicolons_or_tabs(separator: str, tmp_path: Path) -> None:
    header = f'\ufeffid{separator}"answer"{separator}target{separator}"a, b"\r\n'
    row = f'01{separator}"x\ny{separator}, z"{separator}4{separator}"say ""no"""\r\n'
    path = tmp_path / "a.csv"
    path.write_text(header + row, encoding="utf-8", newline="")
    (read,) = cal.read(path).to_dicts()
    assert [read[name] for name in ("id", "answer", "target")] == ["01", f"x\ny{separator}, z", "4"]
    assert read["a, b"] == 'say "no"'
    path.write_text(header + row + row.replace("\r", f"{separator}more\r"), newline="")
    with pytest.raises(cal.DataError, match="5 cells where the header has 4"):
        cal.read(path)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("1,4,4,1.5,,", "prob_correct: 1.5 is outside [0, 1]"),
        ("1,4,4,zero,,", 'prob_correct: "zero" is not a number'),
        ("1,4,4,,maybe,", 'correct: "maybe" is not true or false'),
        ("1,4,4,,,-1", "latency_ms: -1 is negative"),
        ("1,4,4,,,inf", "latency_ms: inf is not a finite number"),
        ("1,4,4,,,1e999", "latency_ms: 1e999 is not a finite number"),
    ],
)
def test_a_bad_cell_names_file_row_and_field(row: str, problem: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", f'0,"a\nb",a,,,\n{row}\n2,4,4,,,\n')
    assert read_message(path) == f"{path}:2: {problem}"
    score = cal.score(path, on_bad="skip", bad_rows=tmp_path / "bad.jsonl")
    assert (score.records, score.inputs[0].skipped) == (2, 1)
    bad = json.loads((tmp_path / "bad.jsonl").read_text())
    assert (bad["source"], bad["row"], bad["problem"]) == (str(path), 2, problem)
    assert json.loads(bad["content"])["id"] == "1"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'1,"a\nb",a,,,\n2,3,3,0.5,,1,9\n', "2: 7 cells where the header has 6"),
        (b"1,a,a,,,\n2,\xff,4,,,\n", "2: answer: invalid UTF-8"),
        (b'1,a,a,,,\n2,"a,4,,,\n3,a,a,,,\n', "2: not CSV: unexpected end of data"),
    ],
    ids=["too many cells", "invalid UTF-8", "a quote that never ends"],
)
def test_a_broken_row_is_named(body: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER.encode() + body)
    assert read_message(path) == f"{path}:{problem}"
    path.write_bytes(gzip.compress(HEADER.encode() + body))
    assert read_message(path) == f"{path}:{problem}"


def test_cells_missing_at_the_end_of_a_row_are_null(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", "1,2,2,0.5,,1\n2,3,3\n")
    metrics = cal.score(path).groups[0].metrics
    assert (metrics["accuracy"].n, metrics["accuracy"].value) == (2, 1.0)
    assert (metrics["latency_mean_ms"].n, metrics["latency_mean_ms"].missing) == (1, 1)


def test_an_empty_cell_in_quotes_is_null_where_no_text_can_be(tmp_path: Path) -> None:
    header = "id,answer,target,latency_ms,correct,violations,tags\n"
    path = write_csv(
        tmp_path / "a.csv", '"1","","4","","","",""\n"2","4","4"," ","true","[]"," "\n', header
    )
    metrics = cal.score(path, metrics=["accuracy", "latency_mean_ms", "sce"]).groups[0].metrics
    assert (metrics["accuracy"].n, metrics["accuracy"].value) == (2, 0.5)
    assert (metrics["latency_mean_ms"].n, metrics["latency_mean_ms"].missing) == (0, 2)
    assert metrics["sce"].n == 2  # of a text, quotes without anything between are one


@pytest.mark.parametrize("content", ["", "\n\n", HEADER])
def test_a_csv_without_records_has_none(content: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", content, header="")
    score = cal.score(path, by="model")
    assert (score.records, score.exit_code) == (0, 3)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_csv(pack: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    body = HEADER + "".join(f"{number},4,4,,,\n" for number in range(2000))
    path.write_bytes(pack(body.encode()))
    assert cal.score(path).records == 2000
    path.write_bytes(pack(body.encode())[:-20])
    assert read_message(path).startswith(f"{path}: the compressed data is damaged or cut short")


@pytest.mark.parametrize("name", ["a[1].csv", "a[1].parquet", "a*.csv", "lake[x]/p.parquet"])
def test_names_that_look_like_patterns_are_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    frame = pl.DataFrame({"id": ["1"], "answer": ["4"], "target": ["4"]})
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    assert cal.score(path).records == 1
    assert cal.score(path if path.parent == tmp_path else path.parent).records == 1
