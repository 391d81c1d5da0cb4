"""Lists of names: the same lists from every format, and every bad one named."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.records.batch import CHECK, Wanted
from calipers.records.readers.bytestream import Block
from calipers.records.readers.line_chunk import JsonLinesChunk
from tests.examples import examples
from tests.files import write_lines

FIELD = "expected_behaviors"
GOOD: list[Any] = [
    ["greet", "ask"],
    [],
    None,
    ["greet", "greet"],
    ["", " ask", 'say "no"', "a\\b", "größe 🙂", "line\nbreak", "[1, 2]", "a, b", "\0"],
]
BAD: list[Any] = ["greet", "", 5, 2.5, True, {"greet": True}, ["greet", 1], ["greet", None]]
BAD += [[["greet"]], [{"name": "greet"}], [True], '{"greet": 1}', "[1]", "null", '["greet"']


def names(data: Any) -> list[Any]:
    """The lists that were read."""
    return [None if text is None else json.loads(text) for text in cal.read(data)[FIELD]]


def as_jsonl(values: list[Any], folder: Path) -> Path:
    rows = [{"id": str(number), FIELD: value} for number, value in enumerate(values)]
    return write_lines(folder / "a.jsonl", rows)


def as_csv(values: list[Any], folder: Path) -> Path:
    path = folder / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", FIELD])
        for number, value in enumerate(values):
            text = value if isinstance(value, str) else json.dumps(value)
            writer.writerow([number, None if value is None else text])
    return path


def as_parquet(values: list[Any], folder: Path) -> Path:
    path = folder / "a.parquet"
    ids = [str(number) for number in range(len(values))]
    pl.DataFrame({"id": ids, FIELD: pl.Series(values, dtype=pl.List(pl.String))}).write_parquet(
        path
    )
    return path


@pytest.mark.parametrize("written", [as_jsonl, as_csv, as_parquet])
def test_lists_are_read_from_every_format(
    written: Callable[[list[Any], Path], Path], tmp_path: Path
) -> None:
    assert names(written(GOOD, tmp_path)) == GOOD


def test_lists_are_read_from_dicts() -> None:
    assert names([{FIELD: value} for value in [*GOOD, ("a", "b")]]) == [*GOOD, ["a", "b"]]


def test_a_list_may_come_as_json_text(tmp_path: Path) -> None:
    texts = [json.dumps(value) for value in (["a", "b"], [])]
    assert names(as_jsonl(texts, tmp_path)) == [["a", "b"], []]
    assert names(pl.DataFrame({FIELD: ['["a","b"]', "[]", None]})) == [["a", "b"], [], None]


def test_empty_lists_of_no_type(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({FIELD: [[], None]}).write_parquet(path)
    assert names(path) == [[], None]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"{FIELD}": ["a\\ud800"]}}\n', encoding="utf-8")
    assert names(path) == [["a?"]]


@pytest.mark.parametrize("value", BAD, ids=json.dumps)
def test_what_is_no_list_of_texts_is_named(value: Any, tmp_path: Path) -> None:
    good = {"id": "a", FIELD: ["greet"]}
    for data, where in (
        (write_lines(tmp_path / "a.jsonl", [good, {"id": "b", FIELD: value}]), "a.jsonl:2"),
        ([good, {"id": "b", FIELD: value}], "<records>:2"),
    ):
        with pytest.raises(cal.DataError) as caught:
            cal.score(data, metrics=["behavior_coverage"])
        assert f"{where}: {FIELD}: " in str(caught.value)
        assert "is not a list of texts" in str(caught.value)


@pytest.mark.parametrize("value", ["greet", "[1]", '["greet"', "5"])
def test_bad_cells_are_named(value: str, tmp_path: Path) -> None:
    path = as_csv([["greet"], value], tmp_path)
    with pytest.raises(cal.DataError, match=rf"a\.csv:2: {FIELD}: .* is not a list of texts"):
        cal.score(path, metrics=["behavior_coverage"])


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(FIELD, [["greet"], ["ask", None]]),
        pl.Series(FIELD, [["greet"], "ask"], dtype=pl.Object),
        pl.Series(FIELD, ['["greet"]', "ask"]),
    ],
    ids=["null in a list", "objects", "texts"],
)
def test_bad_values_of_a_table_are_named(column: pl.Series) -> None:
    with pytest.raises(cal.DataError, match=rf"<table>:2: {FIELD}: .* is not a list of texts"):
        cal.score(column.to_frame(), metrics=["behavior_coverage"])


@pytest.mark.parametrize("column", [[5, None], [[1], [2]], [{"a": 1}, None]], ids=str)
def test_columns_of_another_type_are_refused(column: list[Any]) -> None:
    with pytest.raises(cal.DataError, match=rf"<table>:1: {FIELD}: "):
        cal.score(pl.DataFrame({FIELD: column}), metrics=["behavior_coverage"])


def test_bad_lists_can_be_left_out(tmp_path: Path) -> None:
    rows = [{FIELD: ["a"], "observed_behaviors": seen} for seen in (["a"], "a", [], [1])]
    path = write_lines(tmp_path / "a.jsonl", rows)
    score = cal.score(path, metrics=["behavior_coverage"], on_bad="skip")
    assert score.groups[0].metrics["behavior_coverage"].value == 0.5
    assert "2 bad rows were left out" in score.notices


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_lists = st.lists(st.text(max_size=5) | st.sampled_from(['"', "\\", "]", ", "]), max_size=3)


@given(values=st.lists(_lists | _values, min_size=1, max_size=4), ascii_only=st.booleans())
@examples(300, deadline=None)
def test_the_fast_reader_gives_what_the_exact_one_gives(
    values: list[Any], *, ascii_only: bool
) -> None:
    lines = (json.dumps({FIELD: value}, ensure_ascii=ascii_only) for value in values)
    data = "\n".join(lines).encode("utf-8", "replace")
    chunk = JsonLinesChunk(Block(data, 0), "data", Wanted((FIELD,)), {})
    try:
        frame = chunk.lazy().collect()
    except pl.exceptions.PolarsError:
        return
    if chunk.is_trusted(frame.select(f"{CHECK}{FIELD}")):
        batch = chunk.exact()
        assert not batch.bad
        found, expected = (
            each[FIELD].str.json_decode(pl.List(pl.String)) for each in (frame, batch.frame)
        )
        assert found.to_list() == expected.to_list()
