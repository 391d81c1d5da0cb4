"""Many tasks: the error of a metric without a value per task follows from what each task moves."""

from __future__ import annotations

import pytest

import calipers as cal
from tests.comparisons.runs_at_hand import WITHOUT_A_VALUE_PER_TASK, logs, the_only
from tests.examples import first_of

TASKS = 2_000


@pytest.mark.long
@pytest.mark.parametrize("runs", first_of([2, 1]))
def test_the_error_is_that_of_resamples(runs: int) -> None:
    sides = logs(TASKS, 1, runs=runs), logs(TASKS, 2, runs=runs)
    quick = cal.compare(*sides, metrics=WITHOUT_A_VALUE_PER_TASK).pairs[0].metrics
    drawn = cal.compare(*sides, metrics=WITHOUT_A_VALUE_PER_TASK, resamples=1).pairs[0].metrics
    for name in WITHOUT_A_VALUE_PER_TASK:
        assert quick[name].test == "linearised paired t", name
        assert drawn[name].test == "permutation of sides per task", name
        assert quick[name].difference == drawn[name].difference
        assert quick[name].stderr == pytest.approx(drawn[name].stderr, rel=0.12), name
        assert quick[name].p_value == pytest.approx(drawn[name].p_value, abs=0.2), name


def test_a_value_that_few_tasks_carry_is_resampled() -> None:
    base, candidate = logs(TASKS, 1), logs(TASKS, 1)
    for row in candidate[:3]:
        row["answer"] = "another one"
    found = the_only(cal.compare(base, candidate, metrics=["sce"]), "sce")
    assert found.test == "permutation of sides per task"
    assert found.p_value is not None
    assert found.p_value > 0.05


def test_values_that_are_nearly_all_the_same_have_their_rank_resampled() -> None:
    base, candidate = logs(TASKS, 1), logs(TASKS, 2)
    for row in (*base, *candidate[:-200]):
        row["latency_ms"] = 5.0
    found = the_only(cal.compare(base, candidate, metrics=["latency_p50_ms"]), "latency_p50_ms")
    assert (found.difference, found.low) == (0.0, None)


@pytest.mark.long
def test_without_a_difference_it_errs_as_often_as_it_says() -> None:
    pairs = 300
    names = WITHOUT_A_VALUE_PER_TASK
    wrong = dict.fromkeys(names, 0)
    for n in range(pairs):
        sides = logs(TASKS, 2 * n), logs(TASKS, 2 * n + 1)
        for name, found in cal.compare(*sides, metrics=names).pairs[0].metrics.items():
            wrong[name] += found.p_value is not None and found.p_value <= 0.05
    for name, count in wrong.items():
        assert 0.015 <= count / pairs <= 0.09, name
