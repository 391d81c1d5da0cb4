"""Fixed tasks: only their runs vary."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any, Literal

import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.engines_at_hand import needs_spark

WAYS: tuple[Literal["sampled"], Literal["fixed"]] = ("sampled", "fixed")


def test_fixed_tasks_vary_by_their_runs_only() -> None:
    rng = random.Random(4)
    ease = [rng.random() for _ in range(40)]
    rows = [
        {"id": str(task), "run": run, "correct": rng.random() < share, "latency_ms": rng.random()}
        for task, share in enumerate(ease)
        for run in range(3 + task % 3)
    ]
    sampled, fixed = (cal.score(rows, tasks=each).groups[0].metrics for each in WAYS)
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(str(row["id"]), []).append(row)
    for name, field in (("accuracy", "correct"), ("latency_mean_ms", "latency_ms")):
        within = sum(
            len(runs) * statistics.variance(float(run[field]) for run in runs)
            for runs in by_task.values()
        )
        assert fixed[name].stderr == pytest.approx(math.sqrt(within) / len(rows))
        assert fixed[name].value == sampled[name].value
        assert fixed[name].interval == "fixed tasks"
    wide, narrow = ((each["accuracy"].low, each["accuracy"].high) for each in (sampled, fixed))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]  # type: ignore[operator]


def test_fixed_tasks_with_one_run_have_no_interval_and_a_reason() -> None:
    rows = [{"id": str(task), "correct": task % 2 == 0} for task in range(10)]
    found = cal.score(rows, tasks="fixed").groups[0].metrics["accuracy"]
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert "two runs or more of every task" in (found.interval_reason or "")


def test_fixed_tasks_all_alike_have_an_interval() -> None:
    rows = [{"id": str(task), "correct": True} for task in range(10) for _ in range(4)]
    found = cal.score(rows, tasks="fixed").groups[0].metrics["accuracy"]
    assert found.low == pytest.approx(0.904, abs=0.01)
    assert found.high == 1


def test_fixed_tasks_and_clusters_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--tasks fixed"):
        cal.score([{"correct": True}], tasks="fixed", cluster="site")


@needs_spark
def test_fixed_tasks_with_spark() -> None:
    rng = random.Random(5)
    rows = [
        {"id": str(task), "correct": rng.random() < 0.6, "prob_correct": rng.random()}
        for task in range(20)
        for _ in range(3)
    ]
    here, there = (
        cal.score(rows, tasks="fixed", metrics=["accuracy", "brier"], engine=engine).groups[0]
        for engine in ("polars", "spark")
    )
    for name in ("accuracy", "brier"):
        assert (there.metrics[name].low, there.metrics[name].high) == pytest.approx(
            (here.metrics[name].low, here.metrics[name].high)
        )
