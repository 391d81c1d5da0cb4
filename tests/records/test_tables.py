"""CSV, Parquet, frames and lists: their own types become the record's, or the row is named."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

import calipers as cal
from calipers.records.sources import Wanted, open_sources

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

HEADER = "id,answer,target,prob_correct,correct,latency_ms\n"


def csv(path: Path, body: str, header: str = HEADER) -> Path:
    path.write_text(header + body, encoding="utf-8", newline="")
    return path


def message(data: Any, **options: Any) -> str:
    with pytest.raises(cal.DataError) as refused:
        cal.score(data, **options)
    assert refused.value.fix
    return refused.value.message


def keys(score: cal.Score, name: str) -> list[Any]:
    return [group.by[name] for group in score.groups]


# --- CSV ---


def test_cells_take_the_records_types(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "1,18.50,18.5,0.5,,10\n2,007,8, 1 ,TRUE,NaN\n3,a,a,,0,1e3\n")
    read = cal.read(path)
    assert read["id"].to_list() == ["1", "2", "3"]
    assert read["answer"].to_list() == ["18.50", "007", "a"]
    assert read["prob_correct"].to_list() == [0.5, 1.0, None]
    assert read["correct"].to_list() == [None, True, False]
    assert read["latency_ms"].to_list() == [10.0, None, 1000.0]


def test_quoted_cells_hold_line_breaks_commas_and_quotes(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", '1,"a\nb","say ""x"", y",,,\n2,"","",,,\n')
    read = cal.read(path)
    assert read["answer"].to_list() == ["a\nb", ""]
    assert read["target"].to_list() == ['say "x", y', ""]


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
    path = csv(tmp_path / "a.csv", f'0,"a\nb",a,,,\n{row}\n2,4,4,,,\n')
    assert message(path) == f"{path}:2: {problem}"
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
    assert message(path) == f"{path}:{problem}"
    path.write_bytes(gzip.compress(HEADER.encode() + body))
    assert message(path) == f"{path}:{problem}"


def test_cells_missing_at_the_end_of_a_row_are_null(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "1,2,2,0.5,,1\n2,3,3\n")
    metrics = cal.score(path).groups[0].metrics
    assert (metrics["accuracy"].n, metrics["accuracy"].value) == (2, 1.0)
    assert (metrics["latency_mean_ms"].n, metrics["latency_mean_ms"].missing) == (1, 1)


def test_an_empty_cell_in_quotes_is_null_where_no_text_can_be(tmp_path: Path) -> None:
    header = "id,answer,target,latency_ms,correct,violations,tags\n"
    path = csv(
        tmp_path / "a.csv", '"1","","4","","","",""\n"2","4","4"," ","true","[]"," "\n', header
    )
    metrics = cal.score(path, metrics=["accuracy", "latency_mean_ms", "sce"]).groups[0].metrics
    assert (metrics["accuracy"].n, metrics["accuracy"].value) == (2, 0.5)
    assert (metrics["latency_mean_ms"].n, metrics["latency_mean_ms"].missing) == (0, 2)
    assert metrics["sce"].n == 2  # of a text, quotes without anything between are one


@pytest.mark.parametrize("content", ["", "\n\n", HEADER])
def test_a_csv_without_records_has_none(content: str, tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", content, header="")
    score = cal.score(path, by="model")
    assert (score.records, score.exit_code) == (0, 3)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_csv(pack: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    body = HEADER + "".join(f"{number},4,4,,,\n" for number in range(2000))
    path.write_bytes(pack(body.encode()))
    assert cal.score(path).records == 2000
    path.write_bytes(pack(body.encode())[:-20])
    assert message(path).startswith(f"{path}: the compressed data is damaged or cut short")


@pytest.mark.parametrize("name", ["a[1].csv", "a[1].parquet", "a*.csv", "lake[x]/p.parquet"])
def test_names_that_look_like_patterns_are_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    frame = pl.DataFrame({"id": ["1"], "answer": ["4"], "target": ["4"]})
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    assert cal.score(path).records == 1
    assert cal.score(path if path.parent == tmp_path else path.parent).records == 1


# --- tables with types ---


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
    assert message(path, metrics=["accuracy", "brier", "latency_mean_ms"]) == f"{path}:2: {problem}"
    rows = [{field: value} for value in values]
    told = message(rows, metrics=["accuracy", "brier", "latency_mean_ms"])
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
    assert message(path).startswith(f"{path}:{count}: latency_ms: -1")


@pytest.mark.parametrize("content", [b"", b"PAR1xxxxPAR1", b'{"answer": "a"}\n'])
def test_what_is_no_parquet_is_an_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    assert message(path).startswith(f"{path}: cannot be read: ")


def test_a_parquet_file_cut_short_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"answer": ["a"] * 1000}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])
    assert message(path).startswith(f"{path}: cannot be read: ")


def test_a_table_with_none_of_the_fields_still_has_its_records() -> None:
    table = pl.DataFrame({"other": [1, 2, 3]})
    score = cal.score(table, metrics=["accuracy"])
    assert (score.records, score.groups[0].metrics["accuracy"].value) == (3, None)
    with pytest.raises(cal.DataError, match="nothing can be measured"):
        cal.score(table)


# --- fields to group by ---


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
            [9007199254740992, 9007199254740993, None],
        ),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pl.Series) else "",
)
def test_any_column_can_be_grouped_by(
    column: pl.Series, expected: list[Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"mine": column}).write_parquet(path)
    assert keys(cal.score(path, by="mine", metrics=["accuracy"]), "mine") == expected


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
    assert message(pl.DataFrame({"mine": [value]}), by="mine").startswith("<table>:1: mine: ")


# --- folders ---


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
    assert message(tmp_path) == f"{tmp_path / '1.parquet'}:2: latency_ms: -1.0 is negative"
    score = cal.score(tmp_path, on_bad="skip", bad_rows=tmp_path / "bad.jsonl")
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [row["row"] for row in bad] == [2, 3]
    assert (score.inputs[0].rows, score.inputs[0].skipped) == (4, 2)


def test_a_folder_without_parts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert message(tmp_path) == f"{tmp_path}: a folder without Parquet parts"


# --- in memory ---


def test_values_of_numpy_in_a_list_of_dicts() -> None:
    row = {
        "id": np.int64(7),
        "correct": np.bool_(1),
        "latency_ms": np.float32(1.5),
        "seed": np.int32(3),
        "flag": np.bool_(0),
    }
    score = cal.score([row, {"id": "8", "latency_ms": np.float64("nan")}], by=["seed", "flag"])
    assert score.groups[0].by == {"seed": 3, "flag": False}
    assert score.groups[0].metrics["accuracy"].value == 1.0
    assert score.groups[1].metrics["latency_mean_ms"].missing == 1


def test_nested_values_in_a_list_of_dicts() -> None:
    rows = [{"tags": ["a"], "trace": {"tool_calls": []}, "mine": {"x": 1}, "answer": "1"}]
    read = cal.read(rows).row(0, named=True)
    assert json.loads(read["tags"]) == ["a"]
    assert json.loads(read["trace"]) == {"tool_calls": []}
    assert json.loads(read["mine"]) == {"x": 1}
    assert keys(cal.score(rows, by="tags"), "tags") == ['["a"]']


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"answer": "a"}, ["b"]], "<records>:2: not a dict"),
        (["a.jsonl", {"answer": "a"}], "<records>:1: not a dict"),
        (b"abc", "<records>:1: not a dict"),
    ],
)
def test_what_is_no_row_is_named(rows: Any, problem: str) -> None:
    assert message(rows) == problem


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"answer": ["1", 2]}),
        pd.DataFrame([["1", "2"]], columns=["answer", "answer"]),
        pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["answer", "answer"]),
    ],
    ids=["types mixed", "pandas, a name twice", "Arrow, a name twice"],
)
def test_a_table_that_cannot_be_read_is_a_clear_error(table: Any) -> None:
    assert message(table).startswith("<table>: cannot be read: ")


@pytest.mark.parametrize("data", [None, 5, {"answer": "a"}])
def test_what_is_no_data_is_a_usage_error(data: Any) -> None:
    with pytest.raises(cal.UsageError):
        cal.score(data)


def _right(table: Any) -> tuple[int, float | None]:
    result = cal.score(table, metrics=["accuracy"])
    return result.records, result.groups[0].metrics["accuracy"].value


def _sums() -> list[dict[str, Any]]:
    return [{"id": f"t{n}", "answer": str(n), "target": str(n + n % 2)} for n in range(6)]


def test_a_relation_of_duckdb_and_a_stream_of_arrow_are_tables() -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pa.Table.from_pylist(_sums())
    with duckdb.connect() as database:
        database.register("sums", table)
        relation = database.sql("select * from sums where id <> 't0'")
        assert _right(relation) == (5, 0.4)
    assert _right(pa.RecordBatchReader.from_batches(table.schema, table.to_batches())) == (6, 0.5)


def test_a_dataset_of_hugging_face_is_a_table() -> None:
    datasets = pytest.importorskip("datasets", reason="not installed: datasets")
    data = datasets.Dataset.from_list(_sums())
    assert _right(data) == (6, 0.5)
    assert _right(data.filter(lambda row: row["id"] != "t0")) == (5, 0.4)
    with pytest.raises(cal.UsageError, match="several tables: train, test") as caught:
        cal.score(datasets.DatasetDict(train=data, test=data))
    assert caught.value.fix == "name one of them: data['train']"


def test_pandas_types_of_its_own() -> None:
    frame = pd.DataFrame(
        {
            "model": pd.Categorical(["a", "b", None]),
            "correct": pd.array([True, None, False], dtype="boolean"),
            "prompt_tokens": pd.array([1, None, 3], dtype="Int64"),
            "answer": pd.array(["x", None, "y"], dtype="string"),
        },
        index=[7, 8, 9],
    )
    score = cal.score(frame, by="model")
    assert keys(score, "model") == ["a", "b", None]
    assert [group.metrics["accuracy"].value for group in score.groups] == [1.0, None, 0.0]
    assert [group.metrics["prompt_tokens_mean"].n for group in score.groups] == [1, 0, 1]


def test_a_generator_of_rows_is_a_list_of_rows() -> None:
    assert cal.score({"answer": str(number)} for number in range(4)).records == 4


def test_rows_keep_their_numbers_when_bad_ones_are_left_out() -> None:
    rows = [{"prob_correct": share} for share in (0.5, 2.0, 0.7)]
    for data in (rows, pl.DataFrame(rows)):
        [source] = open_sources(data)
        [batch] = (chunk.exact() for chunk in source.chunks(Wanted(("prob_correct",))))
        assert [bad.row for bad in batch.bad] == [2]
        assert list(batch.numbers) == [1, 3]
        assert batch.frame["prob_correct"].to_list() == [0.5, 0.7]
