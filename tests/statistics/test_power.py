"""Sample sizes: against Miller's paper, the noncentral t, plain Python, and by simulation."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calipers.statistics.paired import compare_paired
from calipers.statistics.power import (
    Spread,
    assume_difference,
    count_tasks_needed,
    estimate_difference_spread,
    estimate_spread,
    find_detectable,
)
from calipers.support.errors import DataError

scores = st.floats(-100, 100, allow_nan=False)
rows = st.lists(st.tuples(st.sampled_from("abcdef"), scores), min_size=1, max_size=40)
spreads = st.builds(
    Spread, between=st.floats(0.01, 10), within=st.floats(0.01, 10), tasks=st.just(9)
)


# The components


def slow_spread(pairs: Sequence[tuple[str, float]]) -> tuple[float, float | None]:
    """The moments, in plain Python."""
    runs: dict[str, list[float]] = defaultdict(list)
    for task, score in pairs:
        runs[task].append(score)
    repeated = [statistics.variance(each) for each in runs.values() if len(each) > 1]
    within = statistics.fmean(repeated) if repeated else None
    between = statistics.variance([statistics.fmean(each) for each in runs.values()])
    if within is not None:
        between -= within * statistics.fmean([1 / len(each) for each in runs.values()])
    return max(0.0, between), within


@given(pairs=rows)
def test_components_are_the_moments(pairs: list[tuple[str, float]]) -> None:
    tasks, values = [task for task, _ in pairs], [score for _, score in pairs]
    if len(set(tasks)) == 1:
        with pytest.raises(DataError, match="needs two tasks"):
            estimate_spread(values, tasks)
        return
    between, within = slow_spread(pairs)
    found = estimate_spread(values, tasks)
    assert found.between == pytest.approx(between, rel=1e-6, abs=1e-6)
    assert found.between >= 0
    assert (found.within is None) == (within is None)
    assert (found.within or 0.0) == pytest.approx(within or 0.0, rel=1e-6, abs=1e-6)
    assert found.tasks == len(set(tasks))


def test_components_have_no_bias() -> None:
    """Uneven numbers of runs, and tasks that differ in how much their runs vary."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(60), 2 + np.arange(60) % 3)
    found = []
    for _ in range(1000):
        noise = rng.choice([0.5, 1.5], size=60)[tasks] * rng.normal(size=tasks.size)
        found.append(estimate_spread(rng.normal(0, 0.8, size=60)[tasks] + noise, tasks))
    assert np.mean([each.between for each in found]) == pytest.approx(0.64, rel=0.03)
    assert np.mean([each.within or 0 for each in found]) == pytest.approx(1.25, rel=0.03)


def test_one_run_per_task_holds_both() -> None:
    found = estimate_spread([0, 1, 1, 0], list("abcd"))
    assert found == Spread(between=pytest.approx(1 / 3), within=None, tasks=4)  # type: ignore[arg-type]
    assert found.per_task(1) == found.between
    with pytest.raises(ValueError, match="unknown"):
        found.per_task(2)


def test_differences_are_measured_over_common_tasks() -> None:
    base = [("a", 0.0), ("a", 2.0), ("b", 4.0), ("b", 6.0), ("x", 1.0)]
    candidate = [("b", 9.0), ("b", 9.0), ("a", 1.0), ("a", 5.0), ("y", 3.0), ("c", 0.0)]
    found = estimate_difference_spread(
        [score for _, score in base],
        [task for task, _ in base],
        [score for _, score in candidate],
        [task for task, _ in candidate],
    )
    # Differences 2 (a) and 4 (b): variance 2. Within: (2 + 2)/2 and (0 + 8)/2, over 2 runs each.
    assert found == Spread(between=0.0, within=6.0, tasks=2)


def test_differences_with_one_run() -> None:
    found = estimate_difference_spread([0, 1, 1], list("abc"), [1, 1, 0], list("abc"))
    assert found == Spread(between=1.0, within=None, tasks=3)
    with pytest.raises(DataError, match="0 can be used"):
        estimate_difference_spread([0, 1], ["a", "b"], [0, 1], ["c", "d"])


# Sizes


def test_millers_figures() -> None:
    # Section 5, by the normal quantiles: ω² = 1/9, no noise, 3 points, 80 %: 969 questions. With
    # σ² = 1/6 of each system, 198 questions run 10 times see 7.5 points. The t test asks for more.
    assert count_tasks_needed(0.03, Spread(between=1 / 9, within=0.0, tasks=9)) == 969 + 2
    seen = find_detectable(198, Spread(between=1 / 9, within=1 / 3, tasks=198), runs=10)
    assert seen == pytest.approx(0.0757 * math.sqrt(198 / 196.08), abs=1e-4)


@pytest.mark.parametrize("delta", [1.5, 1.0, 0.5, 0.2, 0.05])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_the_noncentral_t_agrees(delta: float, power: float) -> None:
    n = count_tasks_needed(delta, Spread(between=1.0, within=None, tasks=9), power=power)

    def reached(tasks: int) -> float:
        critical = stats.t.ppf(0.975, tasks - 1)
        return float(stats.nct.sf(critical, tasks - 1, delta * math.sqrt(tasks)))

    assert reached(n) >= power - 0.005
    assert reached(n - 1) < power + 0.005


@given(spread=spreads, delta=st.floats(0.01, 2), runs=st.integers(1, 20))
def test_sizes_and_differences_are_inverse(spread: Spread, delta: float, runs: int) -> None:
    n = count_tasks_needed(delta, spread, runs=runs)
    seen, missed = find_detectable(n, spread, runs=runs), find_detectable(n - 1, spread, runs=runs)
    assert seen is not None
    assert seen <= delta * (1 + 1e-9)
    assert missed is None or missed >= delta * (1 - 1e-9)
    assert count_tasks_needed(-delta, spread, runs=runs) == n


@given(spread=spreads, delta=st.floats(0.01, 2))
def test_more_runs_need_fewer_tasks_and_more_calls(spread: Spread, delta: float) -> None:
    found = {runs: count_tasks_needed(delta, spread, runs=runs) for runs in (1, 2, 4, 8, 16)}
    for few, many in pairwise(found):
        assert found[many] <= found[few]
        assert many * found[many] >= few * found[few] - many  # but for rounding up


def test_edges() -> None:
    once = Spread(between=1.0, within=None, tasks=9)
    assert count_tasks_needed(0.5, once) == 34
    assert find_detectable(1, once) is None
    assert find_detectable(10, Spread(between=0.0, within=0.0, tasks=9)) == 0.0
    with pytest.raises(ValueError, match="zero"):
        count_tasks_needed(0.0, once)


def test_assumed_difference() -> None:
    score = Spread(between=0.2, within=0.1, tasks=9)
    assert assume_difference(score, correlation=0.0) == Spread(between=0.4, within=0.2, tasks=9)
    assert assume_difference(score).between == pytest.approx(0.2)
    assert assume_difference(score, correlation=1.0).between == 0.0


# The power that is reached


def power_reached(first: Any, second: Any) -> float:
    """The share of experiments, a row each, in which the paired t test rejects."""
    return float(np.mean(stats.ttest_rel(second, first, axis=1).pvalue < 0.05))


@pytest.mark.parametrize("runs", [1, 2, 8])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_power_with_an_assumed_correlation(runs: int, correlation: float) -> None:
    score = Spread(between=0.09, within=0.16, tasks=9)
    delta = 0.1
    n = count_tasks_needed(delta, assume_difference(score, correlation=correlation), runs=runs)
    rng = np.random.default_rng(runs)
    shared = rng.normal(size=(3000, n)) * math.sqrt(correlation)

    def system(mean: float) -> Any:
        own = rng.normal(size=(3000, n)) * math.sqrt(1 - correlation)
        return mean + 0.3 * (shared + own) + rng.normal(0, 0.4 / math.sqrt(runs), size=(3000, n))

    assert power_reached(system(0.5), system(0.5 + delta)) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("runs", [1, 4])
def test_power_from_two_finished_runs_of_zeros_and_ones(runs: int) -> None:
    rng = np.random.default_rng(7)
    delta = 0.08

    def experiment(tasks: int, repeats: int) -> tuple[Any, Any]:
        skill = rng.beta(2, 2, size=tasks) * (1 - delta)
        chances = skill, np.clip(skill + delta + rng.uniform(-0.05, 0.05, size=tasks), 0, 1)
        first, second = (rng.random((repeats, tasks)) < chance for chance in chances)
        return first, second

    pilot = experiment(20_000, 4)
    labels = np.tile(np.arange(20_000), 4)
    difference = estimate_difference_spread(pilot[0].ravel(), labels, pilot[1].ravel(), labels)
    n = count_tasks_needed(delta, difference, runs=runs)
    means = [[each.mean(axis=0) for each in experiment(n, runs)] for _ in range(2000)]
    reached = power_reached([first for first, _ in means], [second for _, second in means])
    assert reached == pytest.approx(0.8, abs=0.03)
    if runs == 1:  # the exact McNemar test is more cautious than t
        found = [
            compare_paired(*pair, binary=True, higher_is_better=True).p_value for pair in means
        ]
        exact = np.mean([p is not None and p < 0.05 for p in found])
        assert 0.75 <= exact <= reached


def test_power_of_independent_samples() -> None:
    score = Spread(between=0.2, within=0.05, tasks=9)
    n = count_tasks_needed(0.2, assume_difference(score, correlation=0.0), runs=2)
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, math.sqrt(0.225), size=(2, 4000, n))
    p_values = stats.ttest_ind(second + 0.2, first, axis=1, equal_var=False).pvalue
    assert np.mean(p_values < 0.05) == pytest.approx(0.8, abs=0.03)
