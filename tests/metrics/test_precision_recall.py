"""Precision and recall of booleans and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import calipers as cal
from tests.files import write_lines
from tests.metrics.scenarios_at_hand import Record, measured


def rows_of(*pairs: tuple[Any, Any]) -> list[Record]:
    return [{"predicted": predicted, "actual": actual} for predicted, actual in pairs]


def test_precision_and_recall_of_booleans() -> None:
    rows = rows_of((True, True), (True, True), (True, False), (False, True), (None, True))
    assert measured(rows, "precision").value == 2 / 3
    assert measured(rows, "recall").value == 2 / 3
    assert (measured(rows, "recall").n, measured(rows, "recall").missing) == (4, 1)


def test_booleans_in_csv_need_no_label(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("predicted,actual\ntrue,True\nTRUE,false\nfalse,true\n", encoding="utf-8")
    (group,) = cal.score(path, metrics=["precision", "recall"]).groups
    assert [found.value for found in group.metrics.values()] == [0.5, 0.5]


def test_booleans_after_many_nulls_are_still_booleans(tmp_path: Path) -> None:
    rows: list[Record] = [{"id": str(number)} for number in range(300)]
    rows += [{"id": "t", "predicted": True, "actual": True}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    assert cal.score(path, metrics=["precision"]).groups[0].metrics["precision"].value == 1.0


def test_labels_need_the_positive_one() -> None:
    rows = rows_of(("spam", "spam"), ("spam", "ham"), ("Spam", "spam"))
    for name in ("precision", "recall"):
        assert measured(rows, name, positive="spam").value == 0.5
        found = measured(rows, name)
        assert found.value is None
        assert found.reason is not None
        assert "--set positive=LABEL" in found.reason


def test_numbers_are_labels() -> None:
    rows = rows_of((1, 1), (1, 0), (0, 1))
    assert measured(rows, "precision", positive="1").value == 0.5
    assert "--set positive" in str(measured(rows, "precision").reason)
    assert measured(rows, "precision", positive="yes").reason == "no record is predicted positive"


def test_nothing_positive_has_its_reason() -> None:
    rows = rows_of((False, False), (False, True))
    assert measured(rows, "precision").reason == "no record is predicted positive"
    assert measured(rows, "recall").value == 0.0
    assert measured(rows[:1], "recall").reason == "no record is actually positive"
