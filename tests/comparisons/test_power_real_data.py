"""Power on real data, and plans for a width."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from typing import Any

import polars as pl
import pytest

import calipers as cal
from calipers.support.errors import UsageError
from tests.comparisons.powered import (
    components,
    needed,
    run,
    seen,
    the_only,
)
from tests.shared_data import FOLDER, needs_shared_data

TAU = FOLDER / "agent_runs" / "tau_airline_gpt4o_runs.jsonl"


GSM8K = FOLDER / "reasoning" / "gsm8k_openai_2models.jsonl"


@needs_shared_data
def test_agent_runs() -> None:
    runs = defaultdict(list)
    for line in TAU.read_text(encoding="utf-8").split("\n")[:-1]:
        row = json.loads(line)
        runs[row["task"]].append(float(row["passed"]))
    result = run(TAU, *("--map", "id=task", "--map", "correct=passed", "--format", "json"))
    (group,) = json.loads(result.stdout)["groups"]
    found = group["metrics"]["accuracy"]
    between, within, share = components(runs.values())
    assert (found["tasks"], found["runs"]) == (25, 4.0)
    assert found["between"] == pytest.approx(between)
    assert found["within"] == pytest.approx(within)
    assert found["detectable"] == pytest.approx(seen(25, between + 2 * within * share))
    assert [plan["tasks"] for plan in found["plans"]] == [
        needed(0.05, between + 2 * within / k) for k in (1, 2, 4, 8, 16)
    ]
    assert found["plans"][0]["tasks"] == 1134


@needs_shared_data
def test_two_models_on_the_same_questions() -> None:
    rows = pl.read_ndjson(GSM8K)
    sides = [part for _, part in sorted(rows.partition_by("model", as_dict=True).items())]
    large, small = sides
    asked: dict[str, Any] = {
        "metrics": ["accuracy"],
        "delta": 0.03,
        "map": {"correct": "source_correct"},
    }
    found = the_only(cal.power(large, small, **asked))
    both = large.join(small, on="id", suffix="_2")
    change = both["source_correct_2"].cast(pl.Int64) - both["source_correct"].cast(pl.Int64)
    variance = statistics.variance(change.to_list())
    assert found.tasks == 1319
    assert found.plans[0].tasks == needed(0.03, variance)
    assert found.detectable == pytest.approx(seen(1319, variance))
    # The questions' scores correlate less than is taken for granted without a second run.
    alone = the_only(cal.power(large, **asked))
    assert alone.plans[0].tasks < found.plans[0].tasks


@pytest.mark.parametrize("metric", ["accuracy", "brier"])
def test_a_width_takes_more_than_a_few_tasks_where_all_are_alike(metric: str) -> None:
    def rows(tasks: int) -> list[dict[str, Any]]:
        return [{"id": str(n), "correct": True, "prob_correct": 0.99} for n in range(tasks)]

    analysis = cal.power(rows(20), width=0.1, metrics=[metric, "latency_mean_ms"])
    [plan] = analysis.groups[0].metrics[metric].width_plans
    score = cal.score(rows(plan.tasks)).groups[0].metrics[metric]
    assert score.low is not None
    assert score.high is not None
    assert 0.09 < score.high - score.low <= 0.1
    assert f"no wider than 10 points you need {plan.tasks} tasks" in str(analysis)


def test_a_plan_for_a_width_and_where_the_variance_comes_from() -> None:
    rows = [
        {"id": str(task), "correct": (task % 3 > 0) != (run == task % 4)}
        for task in range(60)
        for run in range(4)
    ]
    analysis = cal.power(rows, width=0.1, metrics=["accuracy"])
    found = analysis.groups[0].metrics["accuracy"]
    assert found.components is not None
    assert found.components.tasks + (found.components.runs or 0) == pytest.approx(1)
    of_four = next(plan for plan in found.width_plans if plan.runs == 4)
    scored = cal.score(rows).groups[0].metrics["accuracy"]
    assert scored.low is not None
    assert scored.high is not None
    expected = 60 * ((scored.high - scored.low) / 0.1) ** 2
    assert of_four.tasks == pytest.approx(expected, rel=0.1)
    assert "For an interval of accuracy no wider than 10 points you need" in str(analysis)
    with pytest.raises(UsageError, match="--width"):
        cal.power(rows, width=0)
