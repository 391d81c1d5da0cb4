"""Intervals by resampling, as a score has them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import calipers as cal
from tests.engines.drawn_logs import Record, logs


def measured(rows: Sequence[Record], **asked: Any) -> Mapping[str, Any]:
    (group,) = cal.score(rows, **{"resamples": 2000, **asked}).groups
    return group.metrics


def test_every_metric_has_a_bootstrap_interval_around_its_value() -> None:
    plain = measured(logs(80, runs=2), resamples=0)
    for name, found in measured(logs(80, runs=2)).items():
        assert found.value == plain[name].value
        refused = ("ece", "sce", "sce_normalized", "latency_p99_ms")
        if name in ("time_score", *refused):  # time_score: all are 1
            assert found == plain[name]
            continue
        assert found.interval == "BCa bootstrap", name
        assert found.low < found.high, name
        assert found.stderr == pytest.approx(plain[name].stderr, rel=0.35), name


def test_the_same_seed_the_same_bytes() -> None:
    rows = logs(60, runs=2)
    first, again, other = (
        cal.score(rows, resamples=500, seed=seed).to_json() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_group_does_not_depend_on_the_others() -> None:
    ours, theirs = (
        [{**row, "model": model} for row in logs(40, seed)] for seed, model in enumerate("ab")
    )
    both = cal.score([*theirs, *ours], by="model", resamples=500).groups
    alone = cal.score(ours, by="model", resamples=500).groups
    assert both[0].metrics == alone[0].metrics
    assert both[1].metrics != alone[0].metrics


def test_what_few_clusters_carry_is_not_resampled() -> None:
    score = cal.score(
        [{"id": str(n), "correct": n > 1} for n in range(80)], metrics=["accuracy"], resamples=500
    )
    assert score.groups[0].metrics["accuracy"].interval == "wilson"
    [notice] = score.notices
    assert notice.endswith("accuracy in some groups: fewer than 5 clusters carry the variance")


def test_a_final_score_without_adversarial_records_has_no_interval() -> None:
    rows = [
        {
            "id": str(n),
            "category": "math",
            "correct": n % 3 > 0,
            "latency_ms": n,
            "expected_behaviors": ["a"],
            "observed_behaviors": ["a"] * (n % 4 > 0),
        }
        for n in range(40)
    ]
    final = measured(rows, metrics=["final_score"])["final_score"]
    assert (final.value, final.low, final.high) == (None, None, None)
    assert final.reason == (
        "no safety_rate: no record is of the category adversarial, written just so"
    )


def test_the_order_of_the_rows_makes_no_difference() -> None:
    rows = logs(60, runs=2)
    other = list(rows)
    random.Random(3).shuffle(other)
    first, second = (measured(each, resamples=300) for each in (rows, other))
    for name, found in first.items():
        assert (found.low, found.high) == pytest.approx((second[name].low, second[name].high))


def test_one_minus_accuracy_mirrors_it() -> None:
    found = measured([{"id": str(n), "correct": n < 7} for n in range(80)], resamples=20_000)
    accuracy, wrong = found["accuracy"], found["error_rate"]
    assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((accuracy.low, accuracy.high))
    # 7 of 80 may well be 14 of 80, and hardly 0: the skewness moves both bounds up.
    assert accuracy.high - 7 / 80 > 7 / 80 - accuracy.low


def test_the_upper_tail_of_a_quantile_is_the_longer() -> None:
    """The bounds are near the exact ones by order statistics, which are not symmetric in ranks."""
    rows = [{"id": str(n), "latency_ms": float(n)} for n in range(1, 201)]
    exact, found = measured(rows, resamples=0), measured(rows, resamples=20_000)
    ours, theirs = found["latency_p95_ms"], exact["latency_p95_ms"]
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1.5)


def test_runs_of_a_task_are_drawn_together() -> None:
    chance = random.Random(1)
    rows = [
        {"id": str(task), "latency_ms": level + chance.gauss(0, 1)}
        for task in range(40)
        for level in [chance.gauss(100, 10)]
        for _ in range(5)
    ]
    together = measured(rows)["latency_mean_ms"]
    apart = measured([{**row, "id": str(n)} for n, row in enumerate(rows)])["latency_mean_ms"]
    assert together.stderr > 1.7 * apart.stderr


def test_records_without_ids_are_clusters_of_their_own() -> None:
    rows = logs(50)
    without = [{name: value for name, value in row.items() if name != "id"} for row in rows]
    ours, theirs = measured(rows)["brier"], measured(without)["brier"]
    assert ours.stderr == pytest.approx(theirs.stderr, rel=0.1)


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "1", "latency_ms": 0.1}] * 3,
        [{"id": str(n), "latency_ms": 0.1} for n in range(13)],
        [{"id": str(n), "latency_ms": 5, "error": "timeout: 60 s"} for n in range(3)],
        [{"id": str(n), "latency_ms": 1e308} for n in range(4)],
        [{"id": str(n), "latency_ms": 1e200 * n} for n in range(9)],
        [{"id": "1"}],
    ],
    ids=["one task", "constant", "every call failed", "overflow", "squares overflow", "nothing"],
)
def test_where_resampling_says_nothing_the_closed_form_stands(rows: list[Record]) -> None:
    plain = measured(rows, resamples=0, profile="reasoning")
    found = measured(rows, resamples=200, profile="reasoning")
    for name, metric in found.items():
        assert metric.value == plain[name].value
        assert metric.reason == plain[name].reason
        if metric.interval != "BCa bootstrap":
            assert metric == plain[name]
