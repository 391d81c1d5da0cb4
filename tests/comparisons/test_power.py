"""How many tasks and runs a difference takes, from one run or two."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calipers as cal
from calipers.comparisons.power import MetricPower
from calipers.statistics.power import PowerPlan
from tests.comparisons.powered import (
    MANY,
    components,
    needed,
    records,
    run,
    seen,
    tasks,
    the_only,
)
from tests.files import write_lines


def test_repeated_runs_by_hand() -> None:
    found = the_only(cal.power(records(tasks((1, 1), (1, 0), (0, 0), (1, 0), times=5))))
    # Means 1, .5, 0, .5 five times: 2.5 / 19. Within: (0 + .5 + 0 + .5) / 4, over 2 runs.
    assert found.value == 0.5
    assert found.within == pytest.approx(0.25)
    assert found.between == pytest.approx(2.5 / 19 - 0.125)
    assert (found.tasks, found.runs, found.delta) == (20, 2.0, 0.05)
    assert found.difference is not None
    assert found.difference.between == pytest.approx(found.between)  # 2 · (1 − 0.5)
    assert found.difference.within == pytest.approx(0.5)
    between = 2.5 / 19 - 0.125
    assert found.plans == tuple(
        PowerPlan(runs=k, tasks=n, calls=k * n)
        for k in (1, 2, 4, 8, 16)
        for n in [needed(0.05, between + 0.5 / k)]
    )
    assert found.detectable == pytest.approx(seen(20, between + 0.25))
    assert found.reasons == {}


@given(
    runs=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=4, max_size=12),
    correlation=st.floats(-0.9, 0.9),
    power=st.floats(0.5, 0.95),
    confidence=st.floats(0.8, 0.99),
)
def test_uneven_runs(
    runs: list[list[float]], correlation: float, power: float, confidence: float
) -> None:
    if all(len(values) == 1 for values in runs):
        runs[0] = runs[0] * 2
    rows = records(tasks(*([1000 * x for x in values] for values in runs)), "latency_ms")
    found = the_only(
        cal.power(
            rows, delta=50, power=power, confidence=confidence, correlation=correlation, runs=[3]
        ),
        "latency_mean_ms",
    )
    between, within, share = components([1000 * x for x in values] for values in runs)
    assert found.between == pytest.approx(between, rel=1e-6, abs=1e-6)
    assert found.within == pytest.approx(within, rel=1e-6, abs=1e-6)
    variance = 2 * (1 - correlation) * between
    if variance + 2 * within < 1e-3:
        return
    assert found.detectable == pytest.approx(
        seen(len(runs), variance + 2 * within * share, power=power, confidence=confidence), rel=1e-4
    )
    (plan,) = found.plans
    wanted = needed(50, variance + 2 * within / 3, power=power, confidence=confidence)
    assert abs(plan.tasks - wanted) <= 1  # rounded up on either side of a whole number
    assert plan.runs == 3


def test_single_runs() -> None:
    found = the_only(cal.power(records(tasks((1,), (0,), (1,), (1,), times=20)), delta=0.1))
    assert found.between == pytest.approx(15 / 79)
    assert found.within is None
    assert found.reasons == {"within": "no task was run twice"}
    assert found.plans == (
        PowerPlan(runs=1, tasks=needed(0.1, 15 / 79), calls=needed(0.1, 15 / 79)),
    )
    assert "mid-p McNemar" in found.notes[0]
    assert found.detectable == pytest.approx(seen(80, 15 / 79))
    assert needed(found.detectable or 0, 15 / 79) in (80, 81)  # but for rounding


def test_failed_calls_and_missing_values_are_left_out() -> None:
    rows = records(tasks((1, 0), (0, 0), (1, 1)))
    rows += [{"id": "t0", "correct": True, "error": "timeout: 60 s"}, {"id": "t9", "answer": "4"}]
    found = cal.power(rows)
    (group,) = found.groups
    assert (group.records, group.errors, group.tasks) == (8, 1, 4)
    assert group.metrics["accuracy"].tasks == 3
    assert group.metrics["accuracy"].runs == 2.0


def test_values_of_whole_tasks_are_planned_with_their_runs() -> None:
    answers = tasks(("a", "a", "b"), ("a", "a", "a"), ("a", "b", "c"), times=10)
    found = the_only(cal.power(records(answers, "answer")), "determinism_index")
    variance = statistics.variance([2 / 3, 1, 1 / 3] * 10)
    assert found.between == pytest.approx(variance)
    assert found.reasons == {"within": "a task has one value, of all its runs"}
    n = needed(0.05, variance)
    assert found.plans == (PowerPlan(runs=3, tasks=n, calls=3 * n),)
    assert found.detectable == pytest.approx(seen(30, variance))


def test_more_runs_than_there_are_show_only_when_named() -> None:
    runs = records(tasks([True, False], [True, True]), "passed")
    assert "pass_at_2" in cal.power(runs).groups[0].metrics
    assert "pass_at_3" not in cal.power(runs).groups[0].metrics
    assert cal.power(runs, metrics=["pass_at_3"]).groups[0].metrics["pass_at_3"].value is None


def test_noise_that_hides_the_tasks_is_said() -> None:
    found = the_only(cal.power(records(tasks((1, 0), times=30))))
    assert found.between == 0.0
    assert any("lower bounds" in note for note in found.notes)


def test_the_metrics_that_have_a_direction_and_no_copy() -> None:
    (group,) = cal.power(MANY).groups
    named = list(group.metrics)
    assert named[0] == "accuracy"
    assert {"brier", "latency_mean_ms", "ece", "latency_p95_ms"} <= set(named)
    assert not {"usr", "error_rate", "sce", "total_tokens_mean"} & set(named)
    for name in ("ece", "latency_p95_ms"):
        assert group.metrics[name].value is None
        assert "no mean over rows or tasks" in group.metrics[name].reasons["value"]
    (group,) = cal.power(MANY, metrics=["usr", "accuracy", "prompt_tokens_mean"]).groups
    assert list(group.metrics) == ["usr", "accuracy", "prompt_tokens_mean"]
    usr, accuracy, absent = group.metrics.values()
    assert usr.value == pytest.approx(1 / 3)
    assert usr.plans == accuracy.plans
    assert set(absent.reasons.values()) == {"no record has prompt_tokens"}


def test_the_difference_to_see() -> None:
    (group,) = cal.power(MANY).groups
    assert group.metrics["brier"].delta == 0.05
    assert group.metrics["latency_mean_ms"].delta == pytest.approx(0.05 * 114.5)
    (group,) = cal.power(MANY, delta=2).groups
    assert group.metrics["latency_mean_ms"].delta == 2
    accuracy = group.metrics["accuracy"]
    assert accuracy.plans == ()
    assert (
        accuracy.reasons["plans"] == "it cannot differ by 2, at most by 1: choose a smaller --delta"
    )
    assert accuracy.detectable is not None
    found = the_only(cal.power(records(tasks((0,), (0,)), "latency_ms")), "latency_mean_ms")
    assert found.delta is None
    assert "5 % of 0" in found.reasons["delta"]
    found = the_only(cal.power(MANY, metrics=["accuracy"], delta=1e-200))
    assert found.reasons == {
        "within": "no task was run twice",
        "plans": "it takes more tasks than can be counted: choose a larger --delta",
    }


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (tasks((1, 0, 1)), "a single task does not show how much others vary"),
        (tasks((1,), times=9), "nothing varies: every value is 1"),
        (tasks((0, 0), times=9), "nothing varies: every value is 0"),
        (tasks((1,), (0,)), "2 tasks are too few to detect even the largest possible difference"),
    ],
    ids=["one task", "all right", "all wrong", "two tasks"],
)
def test_nulls_have_reasons(runs: dict[str, Any], reason: str, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "a.jsonl", records(runs))
    result = run(data, "--metric", "accuracy", "--format", "json")
    assert result.exit_code == 0
    (group,) = json.loads(result.stdout)["groups"]
    found = group["metrics"]["accuracy"]
    assert found["detectable"] is None
    assert found["reasons"]["detectable"] == reason
    assert found["value"] is not None
    assert reason in run(data, "--metric", "accuracy").stdout


def test_a_constant_with_rounding_does_not_vary() -> None:
    found = the_only(
        cal.power(records(tasks((0.1, 0.1, 0.1), times=7), "latency_ms")), "latency_mean_ms"
    )
    assert found.reasons["plans"] == "nothing varies: every value is 0.1"


def test_values_beyond_squares() -> None:
    found = the_only(cal.power(records(tasks((1e200,), (1e100,)), "latency_ms")), "latency_mean_ms")
    assert set(found.reasons.values()) == {"values too large"}


def test_a_null_without_words_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="a null needs a reason"):
        MetricPower(reasons={})


def test_the_paired_difference_is_measured() -> None:
    base = records(tasks((0,), (1,), (1,), (0,), (0,), times=10))
    better = records(tasks((1,), (1,), (0,), (0,), (1,), times=10))
    found = cal.power(
        [*base, {"id": "x", "correct": True}], [*better, *records({"y": [1], "z": [1]})]
    )
    (group,) = found.groups
    assert (group.tasks, group.only_base, group.only_candidate) == (50, 1, 2)
    accuracy = group.metrics["accuracy"]
    assert (accuracy.value, accuracy.candidate) == (0.4, 0.6)
    assert accuracy.difference is not None
    assert accuracy.difference.between == pytest.approx(statistics.variance([1, 0, -1, 0, 1] * 10))
    assert accuracy.plans[0].tasks == needed(0.05, accuracy.difference.between)
    assert accuracy.detectable == pytest.approx(seen(50, accuracy.difference.between))


def test_two_repeated_runs() -> None:
    first = tasks((1, 0), (1, 1), (0, 0), (1, 0), times=10)
    second = tasks((1, 1, 1), (0, 1, 1), (0, 0, 1), (1, 1, 0), times=10)
    found = the_only(cal.power(records(first), records(second), runs=[2, 5, 2]))
    _, noise, _ = components(first.values())
    _, other_noise, _ = components(second.values())
    differences = [statistics.fmean(second[task]) - statistics.fmean(first[task]) for task in first]
    own = noise / 2 + other_noise / 3
    between = max(0.0, statistics.variance(differences) - own)
    assert found.difference is not None
    assert found.difference.between == pytest.approx(between, abs=1e-12)
    assert [plan.runs for plan in found.plans] == [2, 5]
    assert found.plans[0].tasks == needed(0.05, between + (noise + other_noise) / 2)
    assert found.detectable == pytest.approx(seen(40, between + own))
    assert found.runs == 2.5


@pytest.mark.parametrize("turned", [False, True])
def test_one_of_two_was_run_once(turned: bool) -> None:  # noqa: FBT001
    once, often = tasks((1,), (0,), (1,), times=10), tasks((1, 1), (1, 1), (0, 1), times=10)
    sides = records(once), records(often)
    found = the_only(cal.power(*(reversed(sides) if turned else sides), runs=[1, 4]))
    _, noise, _ = components(often.values())
    variance = statistics.variance([0, 1, -0.5] * 10)
    between = variance - noise - noise / 2
    assert found.difference is not None
    assert found.difference.between == pytest.approx(between)
    assert found.difference.within == pytest.approx(2 * noise)
    assert found.detectable == pytest.approx(seen(30, variance))
    assert [plan.tasks for plan in found.plans] == [
        needed(0.05, between + 2 * noise),
        needed(0.05, between + noise / 2),
    ]
    assert any("assumed to vary like" in note for note in found.notes)


def test_equal_runs_tell_nothing() -> None:
    found = the_only(cal.power(MANY, MANY, metrics=["accuracy"]))
    assert found.reasons["detectable"] == "nothing varies: all tasks differ alike"


def test_a_side_without_the_values() -> None:
    other = [{"id": row["id"], "correct": True} for row in MANY]
    (group,) = cal.power(MANY, other).groups
    assert (
        group.metrics["latency_mean_ms"].reasons["value"] == "CANDIDATE: no record has latency_ms"
    )
    (group,) = cal.power(other, MANY, metrics=["latency_mean_ms"]).groups
    assert group.metrics["latency_mean_ms"].reasons["value"] == "BASE: no record has latency_ms"
    apart = [{"id": "a", "correct": True}, {"id": "b", "latency_ms": 1}]
    mixed = [{"id": "a", "latency_ms": 1}, {"id": "b", "correct": True}]
    found = the_only(cal.power(apart, mixed, metrics=["accuracy"]))
    assert found.reasons["value"] == "no task has a value in both files"


def test_groups_are_paired_with_their_like(tmp_path: Path) -> None:
    runs = tasks((1,), (0,), (1,), times=10)
    first = [*records(runs, tier="T0"), *records(runs, tier="T1")]
    second = [*records(tasks((0,), (0,), (1,), times=10), tier="T1"), *records(runs, tier="T2")]
    result = run(
        write_lines(tmp_path / "a.jsonl", first),
        write_lines(tmp_path / "b.jsonl", second),
        *("--by", "tier", "--format", "json"),
    )
    found = json.loads(result.stdout)
    (group,) = found["groups"]
    assert group["by"] == {"tier": "T1"}
    assert group["tasks"] == 30
    assert group["metrics"]["accuracy"]["candidate"] == pytest.approx(1 / 3)
    assert [notice.rpartition(": ")[2] for notice in found["notices"]] == ["T0", "T2"]
    assert "a.jsonl, and left out: T0" in result.stderr
