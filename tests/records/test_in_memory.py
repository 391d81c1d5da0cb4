"""Lists of dicts, generators and frames of other libraries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import calipers as cal
from calipers.records.batch import Wanted
from calipers.records.sources import open_sources
from tests.records.tables_at_hand import list_keys, read_message

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


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
    assert list_keys(cal.score(rows, by="tags"), "tags") == ['["a"]']


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"answer": "a"}, ["b"]], "<records>:2: not a dict"),
        (["a.jsonl", {"answer": "a"}], "<records>:1: not a dict"),
        (b"abc", "<records>:1: not a dict"),
    ],
)
def test_what_is_no_row_is_named(rows: Any, problem: str) -> None:
    assert read_message(rows) == problem


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            pd.DataFrame([["1", "2"]], columns=["answer", "answer"]),
            "<table>: two columns of the pandas frame have the same name",
        ),
        (
            pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["answer", "answer"]),
            "<table>: cannot be read: ",
        ),
    ],
    ids=["pandas", "Arrow"],
)
def test_a_name_that_two_columns_have_is_a_clear_error(table: Any, problem: str) -> None:
    assert read_message(table).startswith(problem)


@pytest.mark.parametrize("data", [None, 5, {"answer": "a"}])
def test_what_is_no_data_is_a_usage_error(data: Any) -> None:
    with pytest.raises(cal.UsageError):
        cal.score(data)


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
    assert list_keys(score, "model") == ["a", "b", None]
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
