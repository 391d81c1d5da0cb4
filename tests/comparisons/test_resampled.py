"""Metrics without a value per task: resampled, and swapped between the sides."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given

import calipers as cal
from tests.comparisons.runs_at_hand import (
    WITHOUT_A_VALUE_PER_TASK,
    Record,
    by_id,
    logs,
    slowly,
    the_only,
    two_runs,
)
from tests.conformance.reference import REFERENCES, Options


@slowly
@given(sides=two_runs())
def test_values_of_metrics_without_a_value_per_task(
    sides: tuple[list[Record], list[Record]],
) -> None:
    """The reference over all rows of the tasks that have the value on both sides."""
    (found,) = cal.compare(*sides, metrics=WITHOUT_A_VALUE_PER_TASK, resamples=1).pairs
    ours, theirs = by_id(sides[0]), by_id(sides[1])
    for name in WITHOUT_A_VALUE_PER_TASK:
        counts = REFERENCES["ece" if name == "auroc" else name]  # auroc needs two rows to be
        used = [
            task
            for task in ours.keys() & theirs.keys()
            if all(counts(side[task], Options()).n for side in (ours, theirs))
        ]
        metric = found.metrics[name]
        assert metric.n_pairs == len(used)
        before, after = (
            REFERENCES[name]([row for task in used for row in side[task]], Options()).value
            for side in (ours, theirs)
        )
        if before is None or after is None:
            assert metric.difference is None
            assert metric.reason
            continue
        assert (metric.base, metric.candidate) == pytest.approx((before, after), abs=1e-12)
        assert metric.difference == pytest.approx(after - before, rel=1e-6, abs=1e-9 * abs(after))
        assert (metric.low is None) == (metric.p_value is None) == (metric.reason is not None)


def test_the_value_is_that_of_score_on_the_common_tasks() -> None:
    base, candidate = logs(50, 1, runs=2), logs(60, 2)[10:]
    (found,) = cal.compare(base, candidate).pairs
    for name in WITHOUT_A_VALUE_PER_TASK:
        metric = found.metrics[name]
        assert metric.interval == "paired bootstrap"
        assert metric.test == "permutation of sides per task"
        for rows, value in ((base[20:], metric.base), (candidate[:-10], metric.candidate)):
            scored = cal.score(rows, metrics=[name]).groups[0].metrics[name].value
            assert value == pytest.approx(scored)


@pytest.mark.parametrize("name", WITHOUT_A_VALUE_PER_TASK)
def test_chance_is_not_a_difference_and_a_difference_not_chance(name: str) -> None:
    base, same = logs(150, 1), logs(150, 2)
    other = [
        {
            **row,
            "answer": "7" if row["answer"] in "71234" else "5",
            "prob_correct": 0.9 if row["answer"] == "5" else 0.1,
            "latency_ms": 3 * row["latency_ms"],
        }
        for row in same
    ]
    null = the_only(cal.compare(base, same, metrics=[name]), name)
    assert null.p_value is not None
    assert null.p_value > 0.05
    assert null.low is not None
    assert null.high is not None
    assert null.low < 0 < null.high
    found = the_only(cal.compare(base, other, metrics=[name]), name)
    assert found.p_value is not None
    assert found.p_value < 0.02
    assert found.low is not None
    assert found.high is not None
    assert found.low > 0 or found.high < 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["ece", "sce", "auroc", "latency_p95_ms"])
def test_without_a_difference_the_test_errs_as_often_as_it_says(name: str) -> None:
    """And the interval around no difference holds it about as often as it says."""
    pairs = 400
    found = [
        the_only(
            cal.compare(logs(60, 2 * seed), logs(60, 2 * seed + 1), metrics=[name], resamples=1),
            name,
        )
        for seed in range(pairs)
    ]
    for level in (0.05, 0.2, 0.5):
        share = fmean(each.p_value is not None and each.p_value <= level for each in found)
        assert share <= level + 4 * math.sqrt(level * (1 - level) / pairs)
    bounds = [(each.low, each.high) for each in found]
    covered = fmean(
        low is not None and high is not None and low <= 0 <= high for low, high in bounds
    )
    assert 0.93 <= covered <= 0.99


def test_runs_that_are_the_same_differ_in_nothing() -> None:
    rows = logs(30, 3)
    for name, metric in cal.compare(rows, rows).pairs[0].metrics.items():
        if metric.difference is not None:
            assert metric.difference == 0.0, name
            assert metric.p_value in (None, 1.0), name
    ece = the_only(cal.compare(rows, rows, metrics=["ece"]), "ece")
    assert (ece.p_value, ece.low, ece.reason) == (None, None, "no resample differs")


def test_latencies_of_one_side_only_are_in_no_pair() -> None:
    base, candidate = logs(40, 1), logs(40, 2)
    for row in candidate[:10]:
        del row["latency_ms"]
    base[0]["latency_ms"] = 1e6  # would be the p95's neighbour, were it counted
    found = the_only(cal.compare(base, candidate, metrics=["latency_p95_ms"]), "latency_p95_ms")
    assert found.n_pairs == 30
    scored = cal.score(base[10:], metrics=["latency_p95_ms"]).groups[0].metrics["latency_p95_ms"]
    assert found.base == scored.value


def test_a_side_without_tokens_has_no_efficiency() -> None:
    free = [{**row, "prompt_tokens": 0, "completion_tokens": 0} for row in logs(20, 1)]
    paid = [{**row, "completion_tokens": 7} for row in free]
    found = the_only(cal.compare(free, paid, metrics=["token_efficiency"]), "token_efficiency")
    assert (found.base, found.difference) == (None, None)
    assert "divides by zero" in str(found.reason)
