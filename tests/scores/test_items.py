"""Difficulty and discrimination of tasks, and tasks that tell nothing, against plain Python."""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import correlation, fmean
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from tests.commands import run
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.examples import examples
from tests.files import write_lines

Row = dict[str, Any]


def reference(rows: list[Row], fewest: int = 5) -> dict[str, tuple[Any, ...]]:
    """Difficulty, discrimination, who solves it and what it is a copy of, by id."""
    runs: dict[str, dict[str, list[bool]]] = {}
    inputs: dict[str, str] = {}
    for row in rows:
        if row["correct"] is not None:
            runs.setdefault(row["id"], {}).setdefault(row["model"], []).append(row["correct"])
        if (row["input"] or "").strip():
            inputs[row["id"]] = row["input"].strip()
    scores = {task: {model: fmean(each) for model, each in of.items()} for task, of in runs.items()}
    found: dict[str, tuple[Any, ...]] = {}
    for task in {row["id"] for row in rows}:
        own = scores.get(task, {})
        pairs = []
        for model, score in own.items():
            rest = [of[model] for other, of in scores.items() if other != task and model in of]
            if rest:
                pairs.append((score, fmean(rest)))
        same = [each for each in inputs if each != task and inputs[each] == inputs.get(task)]
        first = min(same) if same and min(same) < task else None
        if not own:
            found[task] = (None, None, None, first)
            continue
        every = [passed for of in runs[task].values() for passed in of]
        solved = "everybody" if all(every) else "some" if any(every) else "nobody"
        told = correlate(pairs) if len(pairs) >= fewest else None
        found[task] = (1 - fmean(own.values()), told, solved, first)
    return found


def correlate(pairs: list[tuple[float, float]]) -> float | None:
    columns = list(zip(*pairs, strict=True))
    if any(max(each) - min(each) < 1e-9 for each in columns):
        return None
    return correlation(*columns)


def measure(rows: list[Row], path: Path, **options: Any) -> dict[str, tuple[Any, ...]]:
    cal.score(rows, by="model", metrics=["accuracy"], per_task=path, **options)
    names = ["difficulty", "discrimination", "solved_by", "duplicate_of"]
    found: dict[str, tuple[Any, ...]] = {}
    for row in pl.read_parquet(path).rows(named=True):
        values = tuple(row.get(name) for name in names)
        assert found.setdefault(row["id"], values) == values, "the same in each row of a task"
    return found


def check(found: dict[str, tuple[Any, ...]], expected: dict[str, tuple[Any, ...]]) -> None:
    assert found.keys() == expected.keys()
    for task, values in expected.items():
        for have, want in zip(found[task], values, strict=True):
            is_number = isinstance(want, float) and not math.isnan(want)
            assert have == (pytest.approx(want, abs=1e-9) if is_number else want), task


def some_rows(chance: random.Random, models: int, tasks: int) -> list[Row]:
    return [
        {
            "id": f"q{task}",
            "model": f"m{model}",
            "correct": chance.choice((True, True, False, None)) if task else True,
            "input": f"  what is {task % max(1, tasks - 2)}?" if task % 5 else None,
        }
        for model in range(models)
        for task in range(tasks)
        for _ in range(chance.choice((0, 1, 1, 2)))
    ] or [{"id": "q0", "model": "m0", "correct": True, "input": None}]


@given(st.randoms(use_true_random=False), st.integers(1, 8), st.integers(1, 9))
@examples(15, deadline=None)
def test_every_number_is_what_plain_python_says(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, models: int, tasks: int
) -> None:
    rows = some_rows(chance, models, tasks)
    if all(row["correct"] is None for row in rows):
        return
    path = tmp_path_factory.mktemp("items") / "tasks.parquet"
    check(measure(rows, path), reference(rows))


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_engines_agree(engine: str, tmp_path: Path) -> None:
    rows = some_rows(random.Random(3), 8, 12)
    check(measure(rows, tmp_path / "tasks.parquet", engine=engine), reference(rows))


def test_the_terminal_says_which_tasks_tell_nothing(tmp_path: Path) -> None:
    rows = [
        {"id": task, "model": model, "correct": right, "input": text}
        for model in ("a", "b")
        for task, right, text in (
            ("q1", True, "2 + 2?"),
            ("q2", False, "3 + 3?"),
            ("q3", model == "a", "2 + 2? "),
        )
    ]
    data = write_lines(tmp_path / "a.jsonl", rows)
    out = tmp_path / "tasks.jsonl"
    result = run("score", data, "--by", "model", "--metric", "accuracy", "--per-task", out)
    said = " ".join(result.stdout.split())
    assert "of 3 tasks: 1 solved by nobody, 1 by everybody, 1 with the input of another" in said
    assert "(q3 of q1); discrimination needs 5 systems or more, here 2" in said
    score = cal.score(data, by="model", metrics=["accuracy"], per_task=out)
    assert score.per_task is not None
    assert score.to_dict()["per_task"]["items"] == {
        "tasks": 3,
        "systems": 2,
        "solved_by_nobody": 1,
        "solved_by_everybody": 1,
        "duplicates": 1,
        "reason": "discrimination needs 5 systems or more, here 2",
    }
