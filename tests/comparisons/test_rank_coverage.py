"""What a ranking promises, on simulated systems whose true values are known.

Intervals of all systems, of all pairs and of all ranks hold together in at least 93 % of the data
sets; the bar gives way by two standard errors of the simulation. A rank interval holds where it has
every rank that a system shares with its equals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import isnan, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from calipers.comparisons.pairing import SystemSample, estimate_samples
from calipers.comparisons.rank import estimate_means
from calipers.comparisons.rank_result import (
    Estimates,
    compare_values,
    estimate_values,
    order_systems,
)
from calipers.metrics import metric_named
from calipers.scores.options import Options
from calipers.statistics.all_pairs import TaskMatrix
from calipers.statistics.ranking import Comparisons, fit_strengths

Array = NDArray[np.float64]
Rng = np.random.Generator

PROMISED = 0.93
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Shape:
    """Systems, and how the values of their runs are drawn: systems × tasks × runs."""

    name: str
    metric: str
    true: Array
    draw: Callable[[Rng], Array]


def answers(name: str, skills: list[float], tasks: int, runs: int, spread: float = 1.5) -> Shape:
    """Right or wrong: the harder the task for one, the harder for all."""
    skill = np.array(skills)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)

    def chances(hardness: Array) -> Array:
        found: Array = 1 / (1 + np.exp(hardness[None, :] - skill[:, None]))
        return found

    def draw(rng: Rng) -> Array:
        right = chances(spread * rng.normal(size=tasks))[:, :, None]
        return (rng.random((skill.size, tasks, runs)) < right).astype(np.float64)

    true = (chances(spread * nodes) * weights / weights.sum()).sum(axis=1)
    return Shape(name, "accuracy", true, draw)


def rates(name: str, means: list[float], tasks: int) -> Shape:
    """Scores between 0 and 1 that share what is hard about a task."""
    true = np.array(means)

    def draw(rng: Rng) -> Array:
        task = rng.uniform(-0.15, 0.15, size=(1, tasks, 1))
        return true[:, None, None] + task + rng.uniform(-0.1, 0.1, size=(true.size, tasks, 1))

    return Shape(name, "impl_rate", true, draw)


def costs(name: str, means: list[float], tasks: int) -> Shape:
    """Costs: most tasks are cheap, a few are not, for all systems."""
    true = np.array(means)

    def draw(rng: Rng) -> Array:
        task = rng.gamma(3.0, 1 / 3, size=(1, tasks, 1))
        return true[:, None, None] * task * rng.gamma(8.0, 1 / 8, size=(true.size, tasks, 1))

    return Shape(name, "cost_usd", true, draw)


QUICK = (
    answers("4 systems alike on 40 tasks", [0.0] * 4, 40, 1),
    answers("4 systems on 25 tasks, 3 runs", [0.0, 0.0, 0.5, 1.0], 25, 3),
)
LONG = (
    answers("6 systems on 100 tasks", [-0.8, -0.5, -0.2, 0.2, 0.5, 0.8], 100, 1),
    answers("10 systems alike on 60 tasks", [0.0] * 10, 60, 1),
    answers("5 systems near the ceiling, 30 tasks", [4.5] * 5, 30, 1),
    answers("6 systems near the floor, 40 tasks", [-5.0, -4.0, -4.0, -3.0, -3.0, -2.0], 40, 1),
    answers("6 systems on 30 tasks, 5 runs", [0.0, 0.0, 0.0, 0.5, 0.5, 1.0], 30, 5),
    answers("5 systems alike on 10 tasks, 3 runs", [0.0] * 5, 10, 3),
    answers("4 systems that solve the same tasks", [0.0] * 4, 50, 1, spread=6.0),
    answers("20 systems on 200 tasks", [-0.4] * 5 + [0.0] * 10 + [0.4] * 5, 200, 1),
    rates("6 systems, rates on 40 tasks", [0.3, 0.3, 0.5, 0.5, 0.52, 0.7], 40),
    costs("6 systems, costs on 60 tasks", [1.0, 1.0, 1.0, 1.1, 1.2, 2.0], 60),
)


def matrix_of(values: Array) -> TaskMatrix:
    means = values.mean(axis=2)
    return TaskMatrix(
        values=means,
        runs=np.full(means.shape, float(values.shape[2])),
        squares=np.square(values - means[:, :, None]).sum(axis=2),
        clusters=None,
    )


def are_held(found: Estimates, true: Array, *, higher: bool) -> tuple[bool, bool, bool]:
    """Say whether all values, all differences and all ranks are within their intervals."""
    names = [str(place) for place in range(true.size)]
    values = all(
        _within(each.low, wanted, each.high)
        for each, wanted in zip(found.values, true, strict=True)
    )
    pairs = all(
        isnan(low) or _within(low, true[one] - true[other], high)
        for (one, other), low, high in zip(
            combinations(range(true.size), 2), found.pairs.low, found.pairs.high, strict=True
        )
    )
    ranked = order_systems(
        found,
        by=[{}] * true.size,
        names=names,
        metric="m",
        better="higher" if higher else "lower",
        confidence=0.95,
    )
    good = true if higher else -true
    ranks = all(
        each.rank_low <= 1 + (good > own + _ROUNDING).sum()
        and each.rank_high >= true.size - (good < own - _ROUNDING).sum()
        for each in ranked.systems
        for own in (good[int(each.name)],)
    )
    return values, pairs, ranks


def _within(low: float | None, true: float, high: float | None) -> bool:
    return (low is None or low <= true + _ROUNDING) and (high is None or true - _ROUNDING <= high)


def check(shares: Array, datasets: int) -> None:
    bar = PROMISED - 2 * sqrt(0.95 * 0.05 / datasets)
    assert (shares >= bar).all(), f"values, pairs, ranks: {shares}"


def coverage(shape: Shape, datasets: int) -> Array:
    metric = metric_named(shape.metric)
    rng = np.random.default_rng(7)
    held = []
    for seed in range(datasets):
        found = estimate_means(matrix_of(shape.draw(rng)), metric, Options(seed=seed))
        held.append(are_held(found, shape.true, higher=metric.better == "higher"))
    shares: Array = np.mean(held, axis=0)
    return shares


@pytest.mark.parametrize("shape", QUICK, ids=lambda shape: shape.name)
def test_intervals_and_ranks_hold_together(shape: Shape) -> None:
    check(coverage(shape, 30), 30)


@pytest.mark.long
@pytest.mark.parametrize("shape", [*QUICK, *LONG], ids=lambda shape: shape.name)
def test_intervals_and_ranks_hold_together_on_further_shapes(shape: Shape) -> None:
    check(coverage(shape, 400), 400)


def draw_apart(shape: Shape, rng: Rng) -> list[SystemSample]:
    """Each system on tasks of its own; every second one has but two thirds of them."""
    samples = []
    for place in range(shape.true.size):
        values = shape.draw(rng)[place].mean(axis=1)
        some = values[: values.size * 2 // 3] if place % 2 else values
        samples.append(SystemSample(text=str(place), values=some, clusters=None))
    return samples


def coverage_apart(shape: Shape, datasets: int) -> Array:
    metric = metric_named(shape.metric)
    rng = np.random.default_rng(8)
    held = []
    for seed in range(datasets):
        found = estimate_samples(draw_apart(shape, rng), metric, Options(seed=seed))
        held.append(are_held(found, shape.true, higher=metric.better == "higher"))
    shares: Array = np.mean(held, axis=0)
    return shares


@pytest.mark.long
@pytest.mark.parametrize("shape", [*QUICK, *LONG], ids=lambda shape: shape.name)
def test_independent_samples_hold_together(shape: Shape) -> None:
    check(coverage_apart(shape, 400), 400)


@pytest.mark.long
def test_strengths_hold_together() -> None:
    """Judgments of 5 systems on 120 tasks, three judges who agree more than chance."""
    true = np.array([-0.6, -0.2, 0.0, 0.2, 0.6])
    first, second = np.triu_indices(true.size, 1)
    rng, held, datasets = np.random.default_rng(3), [], 400
    for seed in range(datasets):
        pair = rng.integers(0, first.size, size=120)
        ours, theirs = first[pair], second[pair]
        chance = 1 / (1 + np.exp(true[theirs] - true[ours]))
        shared = rng.random(120)  # two of the judges see the same, the third by themselves
        wins = np.stack([shared < chance, shared < chance, rng.random(120) < chance])
        met = Comparisons(
            np.tile(ours, 3), np.tile(theirs, 3), wins.ravel(), np.tile(np.arange(120), 3)
        )
        found = fit_strengths(met, true.size)
        options = Options(seed=seed)
        parts = found.values, found.covariance, found.clusters, options
        estimates = Estimates(
            values=estimate_values(*parts),
            pairs=compare_values(*parts, test="t"),
            interval="t",
            n_tasks=120,
        )
        held.append(are_held(estimates, true, higher=True))
    check(np.mean(held, axis=0), datasets)
