"""Groups and identities of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from tests.files import write_lines
from tests.scores.scored_records import only


def keys(score: cal.Score, name: str) -> list[Any]:
    return [group.by[name] for group in score.groups]


@pytest.mark.parametrize(
    ("values", "ordered"),
    [
        ([10, None, 9, 2], [2, 9, 10, None]),
        ([0.5, 10, -1.0, None], [-1.0, 0.5, 10.0, None]),
        (["b", None, "a", "B", "é", "10", "9"], ["9", "10", "B", "a", "b", "é", None]),
        ([True, None, False], [False, True, None]),
        (["x", 10, 9], ["9", "10", "x"]),  # of two kinds: texts
        (['a"b\\c\n\u2028', "a,b", ""], ["", 'a"b\\c\n\u2028', "a,b"]),
    ],
)
def test_groups_are_sorted_numbers_by_size_and_null_last(
    values: list[Any], ordered: list[Any], tmp_path: Path
) -> None:
    rows = [{"mine": value, "correct": True} for value in values]
    for data in (rows, write_lines(tmp_path / "a.jsonl", rows)):
        found = keys(cal.score(data, by="mine"), "mine")
        assert found == ordered
        assert [type(value) for value in found] == [type(value) for value in ordered]


def test_several_fields_sort_one_after_the_other() -> None:
    values = [(m, run) for m in ("b", None, "a") for run in (10, None, 9)]
    rows = [{"m": m, "run": run, "correct": True} for m, run in values]
    score = cal.score(rows, by=["m", "run", "m"])
    assert [tuple(group.by.values()) for group in score.groups] == [
        (m, run) for m in ("a", "b", None) for run in (9, 10, None)
    ]


def test_a_field_of_our_own_name_can_be_grouped_by() -> None:
    rows = [{"_group": "a", "value": 1, "n": "x", "correct": True, "cot": "c", "records": "r"}]
    names = ["_group", "value", "n", "correct", "cot", "records"]
    score = cal.score(rows, by=names)
    expected = {"_group": "a", "value": 1, "n": "x", "correct": True, "cot": "c", "records": "r"}
    assert only(score).by == expected
    table = score.to_polars().row(0, named=True)
    assert (table["by_value"], table["by_n"], table["n"]) == (1, "x", 1)


def test_without_ids_rows_are_numbered_with_a_notice(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    rows = {"a.jsonl": [{"answer": "a"}] * 2, "b.jsonl": [{"answer": "b"}] * 2}
    data = [write_lines(tmp_path / name, lines) for name, lines in rows.items()]
    score = cal.score(data, per_sample=out)
    assert score.notices == ("no record has an id: rows are numbered, each a task of its own",)
    assert pl.read_parquet(out)["id"].to_list() == ["1", "2", "3", "4"]


def test_ids_in_some_records_only_are_a_data_error() -> None:
    with pytest.raises(cal.DataError) as refused:
        cal.score([{"id": "1", "answer": "a"}, {"answer": "a"}, {"id": None}])
    assert refused.value.message == "<records>: 2 of 3 records have no id, the others have one"
    assert "--map id=" in refused.value.fix


def test_the_same_id_model_tier_and_run_twice_is_a_warning() -> None:
    same = {"id": "1", "model": "m", "tier": "T0", "run": 1, "answer": "a"}
    others = [{**same, field: "other"} for field in ("id", "model", "tier", "run")]
    assert cal.score([same, *others]).notices == ()
    score = cal.score([same, same, *others, same, {**same, "error": "x"}])
    repeated, twice = score.notices
    assert repeated == (
        "3 records repeat the id, model, tier and run of another; they count as further runs"
    )
    assert twice == (
        "2 records equal another in every field, run included: one run recorded twice; remove the "
        "copies, or number the runs; here they count as further runs"
    )
    assert only(score).records == 8


def test_rows_that_share_an_id_in_a_group_are_runs_of_one_task() -> None:
    rows = [{"id": "q", "model": m, "run": r, "answer": "a"} for m in "xy" for r in (1, 2)]
    assert only(cal.score(rows)).metrics["answer_entropy"].n == 4
    alone = cal.score([{**row, "id": str(number)} for number, row in enumerate(rows)])
    assert only(alone).metrics["answer_entropy"].reason == "no task has two runs with an answer"


def test_a_field_that_is_there_and_empty_is_no_hint_at_itself() -> None:
    rows = [{"id": "a", "correct": True, "category": None, "Category ": "x"}]
    with pytest.raises(cal.UsageError, match="no record has a value in category") as refused:
        cal.score(rows, by="category")
    assert "did you mean category?" not in str(refused.value)
