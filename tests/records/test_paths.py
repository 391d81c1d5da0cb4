"""Paths into lists and objects: the same value from every reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import UsageError

LOGGED: list[dict[str, Any]] = [
    {
        "key": name,
        "gold": "4",
        "choices": [{"message": {"content": "9"}}, {"message": {"content": answer}}],
        "meta": {"tags": [topic, "easy"], "scores": [0.25, score]},
    }
    for name, answer, topic, score in (("a", "4", "sums", 0.5), ("b", "5", "words", 1.0))
]
MAP = {"id": "key", "target": "gold", "answer": "choices[-1].message.content"}


def _write(path: Path) -> Any:
    rows = LOGGED
    if path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif path.suffix == ".csv":
        cells = [
            {k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items()} for r in rows
        ]
        pl.DataFrame(cells).write_csv(path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    else:
        return rows if path.name == "rows" else pl.DataFrame(rows)
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.parquet", "rows", "frame"])
def test_paths_reach_into_lists_in_every_format(name: str, tmp_path: Path) -> None:
    data = _write(tmp_path / name)
    asked = ["accuracy", "mean(meta.scores[1])", "mean(meta.scores[-1])"]
    score = cal.score(data, map=MAP, metrics=asked)
    assert [score[each].value for each in asked] == [0.5, 0.75, 0.75]
    by_topic = cal.score(data, map=MAP, metrics=["accuracy"], by=["meta.tags[0]"])
    found = {group.by["meta.tags[0]"]: group.metrics["accuracy"].value for group in by_topic.groups}
    assert found == {"sums": 1.0, "words": 0.0}


def test_a_wrong_path_names_the_nearest_one(tmp_path: Path) -> None:
    path = _write(tmp_path / "log.jsonl")
    wrong = {**MAP, "answer": "choices[0].mesage.content"}
    with pytest.raises(UsageError) as error:
        cal.score(path, map=wrong, metrics=["accuracy"])
    assert error.value.fix == "did you mean choices[0].message.content?"


def test_a_place_that_a_list_does_not_have_is_missing() -> None:
    rows = [*LOGGED, {**LOGGED[0], "key": "c", "choices": []}]
    score = cal.score(rows, map=MAP, metrics=["accuracy"])
    assert score["accuracy"].value == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["Latency [ms]", "score[0]", "[0]", "a[b]"])
def test_brackets_in_a_column_are_part_of_its_name(name: str) -> None:
    rows = [{"id": "a", "correct": True, name: 2.0}, {"id": "b", "correct": True, name: 4.0}]
    assert cal.score(rows, metrics=[f"mean({name})"])[f"mean({name})"].value == 3.0
