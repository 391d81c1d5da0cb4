"""Which of two systems is better, task by task."""

from __future__ import annotations

import random
from math import sqrt

import numpy as np
import pytest

from calipers.comparisons.sequential_pair import (
    Evidence,
    PairSequence,
    TaskDifference,
    subtract_bounds,
)
from calipers.statistics.sequential import Bounds


def decide(
    differences: list[float], evidence: Evidence = "interval", total: int | None = None
) -> PairSequence:
    pairs = PairSequence(range(total or len(differences)), alpha=0.05, evidence=evidence)
    pairs.take({task: TaskDifference(each, each) for task, each in enumerate(differences)})
    return pairs


def test_wins_alone_decide_after_a_few_tasks() -> None:
    ahead, behind = decide([1.0] * 100), decide([-1.0] * 100)
    assert (ahead.better, behind.better) == (0, 1)
    assert ahead.after == behind.after
    assert ahead.after is not None
    assert 6 <= ahead.after <= 12  # six heads in a row are rarer than one in forty
    low, high = ahead.bound_difference()
    assert 0 < low <= high == pytest.approx(1)


def test_ties_cost_tasks_but_tell_nothing() -> None:
    ties = decide([0.0] * 200 + [1.0] * 100)
    assert ties.after == 200 + (decide([1.0] * 100).after or 0)


def test_what_the_rest_cannot_decide_is_over_before_the_end() -> None:
    even = [1.0, -1.0] * 48
    assert not decide(even, total=400).is_over
    over = decide(even, total=99)
    assert (over.is_over, over.better, over.seen) == (True, None, 96)


def test_on_these_very_tasks_the_last_one_tells() -> None:
    even = [1.0, -1.0] * 20
    ahead = decide([*even, 0.25], "point")
    assert (ahead.better, ahead.is_over) == (0, True)
    assert ahead.bound_difference() == pytest.approx((0.25 / 41, 0.25 / 41), abs=1e-6)
    assert decide(even, "point").better is None
    assert decide(even, "point").is_over


def test_the_order_drawn_counts_however_calls_come_back() -> None:
    chance = random.Random(4)
    values = [chance.choice((1.0, 0.0, 0.0, -1.0, 0.5)) for _ in range(120)]
    at_once = decide(values)
    one_by_one = PairSequence(range(120), alpha=0.05, evidence="interval")
    for task in chance.sample(range(120), 120):
        one_by_one.take({task: TaskDifference(values[task], values[task])})
    assert (one_by_one.better, one_by_one.after) == (at_once.better, at_once.after)
    assert one_by_one.bound_difference() == pytest.approx(at_once.bound_difference())


def test_a_failed_call_counts_for_neither_and_keeps_it_open() -> None:
    known, unsure = TaskDifference(1.0, 1.0), TaskDifference(-1.0, 1.0)
    pairs = PairSequence(range(4), alpha=0.05, evidence="point")
    pairs.take({0: known, 1: unsure, 2: unsure, 3: known})
    assert (pairs.better, pairs.is_over) == (None, False)
    sure = PairSequence(range(4), alpha=0.05, evidence="point")
    sure.take({0: known, 1: unsure, 2: known, 3: known})
    assert sure.better == 0


def test_differences_are_of_tasks_that_both_have() -> None:
    one = {1: Bounds(1.0, 1.0), 2: Bounds(0.0, 1.0), 3: None, 4: Bounds(1.0, 1.0)}
    other = {1: Bounds(0.5, 0.5), 2: Bounds(0.0, 0.0), 3: Bounds(1.0, 1.0)}
    assert subtract_bounds(one.items(), other) == {1: (0.5, 0.5), 2: (0.0, 1.0), 3: (0.0, 0.0)}


def simulate(
    rng: np.random.Generator, rates: tuple[float, float], tasks: int, evidence: Evidence
) -> PairSequence:
    """Two systems on tasks of unlike difficulty, one run each."""
    hard = rng.normal(0, 1.5, tasks)
    right = []
    for rate in rates:
        lift = np.log(rate / (1 - rate)) * sqrt(1 + 1.5**2 / 2.9)  # so that the mean is the rate
        right.append(rng.random(tasks) < 1 / (1 + np.exp(hard - lift)))
    return decide((right[0].astype(float) - right[1].astype(float)).tolist(), evidence)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_equal_systems_are_told_apart_at_most_as_often_as_said(rate: float) -> None:
    rng = np.random.default_rng(11)
    runs = 2000
    wrong = sum(
        simulate(rng, (rate, rate), 300, "interval").better is not None for _ in range(runs)
    )
    assert wrong / runs <= 0.05 + 2 * sqrt(0.05 * 0.95 / runs)


@pytest.mark.long
def test_decisions_on_these_tasks_are_those_of_all_of_them() -> None:
    """Every order is one draw: in at most 5 % of them another is said to be better."""
    rng = np.random.default_rng(12)
    values = np.array([1.0] * 32 + [-1.0] * 28 + [0.0] * 140)
    runs, wrong = 2000, 0
    for _ in range(runs):
        pairs = decide(rng.permutation(values).tolist(), "point")
        assert pairs.better is not None
        wrong += pairs.better != 0
    assert wrong / runs <= 0.05 + 2 * sqrt(0.05 * 0.95 / runs)


@pytest.mark.long
@pytest.mark.parametrize(("ahead", "at_most"), [(0.1, 0.95), (0.2, 0.5), (0.3, 0.25)])
def test_clear_differences_save_calls(ahead: float, at_most: float) -> None:
    rng = np.random.default_rng(13)
    found = [simulate(rng, (0.6 + ahead, 0.6), 500, "interval") for _ in range(200)]
    made = [pairs.after or 500 for pairs in found]
    assert np.mean(made) / 500 <= at_most
    assert not any(pairs.better == 1 for pairs in found)
