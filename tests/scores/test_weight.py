"""`--weight task`: every task counts alike, however many runs it has."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import calipers as cal
from tests.commands import run
from tests.engines_at_hand import ENGINES_AT_LENGTH
from tests.files import write_lines

Record = dict[str, Any]


def uneven(tasks: int = 30, seed: int = 1) -> list[Record]:
    """Task t has 1 to 9 runs; those with many are right more often."""
    chance = random.Random(seed)
    return [
        {
            "id": f"t{task}",
            "correct": chance.random() < 0.3 + 0.07 * runs,
            "latency_ms": None if chance.random() < 0.1 else chance.expovariate(0.01),
            "prob_correct": chance.random(),
        }
        for task in range(tasks)
        for runs in [chance.randint(1, 9)]
        for _ in range(runs)
    ]


def mean_of_means(rows: list[Record], name: str) -> float:
    by_task: dict[str, list[float]] = {}
    for row in rows:
        if row[name] is not None:
            by_task.setdefault(row["id"], []).append(float(row[name]))
    return fmean(map(fmean, by_task.values()))


@pytest.mark.parametrize("engine", ENGINES_AT_LENGTH)
def test_a_mean_is_the_mean_of_the_tasks_means(engine: str) -> None:
    rows = uneven()
    metrics = ["accuracy", "error_rate", "latency_mean_ms", "ece"]
    score = cal.score(rows, weight="task", metrics=metrics, engine=engine)
    found = score.groups[0].metrics
    assert found["accuracy"].value == pytest.approx(mean_of_means(rows, "correct"))
    assert found["error_rate"].value == pytest.approx(1 - mean_of_means(rows, "correct"))
    assert found["latency_mean_ms"].value == pytest.approx(mean_of_means(rows, "latency_ms"))
    assert found["accuracy"].interval == "logit t"
    assert (found["accuracy"].low or 1) < mean_of_means(rows, "correct")
    assert (found["accuracy"].high or 0) > mean_of_means(rows, "correct")
    assert found["accuracy"].n == 30
    assert found["latency_mean_ms"].missing == sum(row["latency_ms"] is None for row in rows)
    [notice] = [each for each in score.notices if each.startswith("--weight task")]
    assert "ece" in notice
    assert "accuracy" not in notice


def test_it_is_what_compare_shows() -> None:
    rows = uneven()
    theirs = cal.compare(rows, uneven(seed=2)).pairs[0].metrics["accuracy"].base
    assert cal.score(rows, weight="task").groups[0].metrics["accuracy"].value == theirs


def test_with_as_many_runs_each_both_weights_agree() -> None:
    rows = [{"id": f"t{n % 10}", "latency_ms": float(n)} for n in range(40)]
    ours, theirs = (
        cal.score(rows, weight=weight, metrics=["latency_mean_ms"]).groups[0].metrics
        for weight in ("task", "row")
    )
    for name in ("value", "low", "high", "stderr"):
        found = getattr(ours["latency_mean_ms"], name)
        assert found == pytest.approx(getattr(theirs["latency_mean_ms"], name))


def test_resampled_too() -> None:
    found = cal.score(uneven(60), weight="task", metrics=["latency_mean_ms"], resamples=500)
    plain = cal.score(uneven(60), weight="task", metrics=["latency_mean_ms"])
    ours, theirs = (each.groups[0].metrics["latency_mean_ms"] for each in (found, plain))
    assert ours.interval == "BCa bootstrap"
    assert ours.stderr == pytest.approx(theirs.stderr, rel=0.2)


def test_one_task_says_why_it_has_no_interval() -> None:
    rows = [{"id": "a", "correct": n > 2} for n in range(9)]
    found = cal.score(rows, weight="task", metrics=["accuracy"]).groups[0].metrics["accuracy"]
    assert found.low is None
    assert "task" in (found.interval_reason or "")


def test_on_the_command_line(tmp_path: Path) -> None:
    rows = uneven()
    path = write_lines(tmp_path / "a.jsonl", rows)
    command = ("score", str(path), "--metric", "accuracy", "--format", "json")
    by_row, by_task = (
        json.loads(run(*command, *more).stdout) for more in ((), ("--weight", "task"))
    )
    assert by_row["settings"]["weight"] == "row"
    assert by_task["settings"]["weight"] == "task"
    values = [each["groups"][0]["metrics"]["accuracy"]["value"] for each in (by_row, by_task)]
    assert values[0] == pytest.approx(fmean(row["correct"] for row in rows))
    assert values[1] == pytest.approx(mean_of_means(rows, "correct"))


def test_without_ids_it_is_refused() -> None:
    with pytest.raises(cal.UsageError, match="--weight task: no record has an id"):
        cal.score([{"correct": True}], weight="task")
