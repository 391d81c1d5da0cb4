"""Means of paired differences: p and interval agree, nothing has zero width by luck, and coverage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from calipers.comparisons.pairing import pair_scale
from calipers.metrics import catalogue
from calipers.statistics.paired import RUN_ONCE, compare_paired
from calipers.statistics.paired_tests import (
    Repeats,
    bonett_price,
    bound_over_runs,
    bound_over_tasks,
    share_difference,
)

counts = st.integers(0, 60)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999])


@given(higher=counts, lower=counts, same=counts, confidence=levels)
def test_shares_p_and_interval_agree(higher: int, lower: int, same: int, confidence: float) -> None:
    n = higher + lower + same
    if not n:
        return
    low, high, p_value = share_difference(higher, lower, n, confidence=confidence)
    assert (p_value < 1 - confidence) == (low > 0 or high < 0)
    assert low <= (higher - lower) / n <= high
    assert high > low


def test_where_mid_p_rejects_sooner_than_the_interval() -> None:
    low, high, p_value = share_difference(10, 0, 100, confidence=0.999)
    assert p_value < 0.001
    assert bonett_price(10, 0, 100, confidence=0.999)[0] <= 0 < low < 0.1 < high


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "least"), [(5, 0.92), (10, 0.94), (20, 0.925), (30, 0.94), (50, 0.94)]
)
def test_shares_cover_over_all_tables(n: int, least: float) -> None:
    """Weighted by their chances, so without error of simulation; below 93 % at one corner each."""
    tables = [(up, down) for up in range(n + 1) for down in range(n + 1 - up)]
    bounds = np.array([share_difference(*table, n, confidence=0.95)[:2] for table in tables])
    counts_of = [(up, down, n - up - down) for up, down in tables]
    covered = {}
    shares = (0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4)
    for up, down in ((up, down) for up in shares for down in shares if up >= down and up > 0):
        chances = multinomial.pmf(counts_of, n, [up, down, 1 - up - down])
        truth = up - down
        held = (bounds[:, 0] <= truth + 1e-12) & (truth <= bounds[:, 1] + 1e-12)
        covered[up, down] = chances[held].sum()
    assert min(covered.values()) >= least
    assert sum(each < 0.93 for each in covered.values()) <= 1


steps = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.0, 0.25, 0.5]), min_size=2)


@given(values=steps, confidence=levels, data=st.data())
def test_means_p_and_interval_agree(values: list[float], confidence: float, data: Any) -> None:
    runs = st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values))
    repeats = Repeats(
        base=np.array(data.draw(runs), float),
        candidate=np.array(data.draw(runs), float),
        squares=np.array(data.draw(runs), float) / 10,
    )
    found = compare_paired(
        np.zeros(len(values)),
        values,
        binary=False,
        higher_is_better=True,
        confidence=confidence,
        reach=1.0,
        repeats=data.draw(st.sampled_from([None, repeats])),
        fixed=data.draw(st.booleans()),
    )
    if found.reason is not None:
        return
    assert found.low is not None
    assert found.high is not None
    assert found.p_value is not None
    assert (found.p_value < 1 - confidence) == (found.low > 0 or found.high < 0)
    assert found.low <= (found.difference or 0) <= found.high
    assert found.high - found.low > 0.001


@pytest.mark.parametrize("difference", [0.0, 0.25, -1.0])
@pytest.mark.parametrize("n", [2, 20, 500])
def test_differences_all_alike_have_an_interval(n: int, difference: float) -> None:
    found = bound_over_tasks(np.full(n, difference), confidence=0.95, reach=1.0, step=1.0)
    assert found.low <= difference <= found.high
    assert 2 / n < found.high - found.low
    if difference == 0:
        assert found.p_value == 1


def test_smooth_differences_have_students_interval() -> None:
    values = np.random.default_rng(0).normal(0.1, 0.1, 40)
    found = bound_over_tasks(values, confidence=0.95, reach=1.0, step=0.5)
    plain = compare_paired(np.zeros(40), values, binary=False, higher_is_better=True)
    assert (found.low, found.high, found.p_value) == pytest.approx(
        (plain.low, plain.high, plain.p_value)
    )


def test_few_tasks_that_differ_are_decided_by_flipped_signs() -> None:
    values = np.zeros(100)
    values[:5] = 25.0  # seconds, say: without a bound
    found = compare_paired(np.zeros(100), values, binary=False, higher_is_better=True)
    assert (found.test, found.p_value) == ("sign-flip permutation", 0.0625)
    assert found.low == 0


def test_fixed_tasks_vary_by_their_runs_only() -> None:
    rng = np.random.default_rng(1)
    ease = rng.uniform(0.1, 0.9, 50)
    base, candidate = (rng.random((50, 8)) < ease[:, None] for _ in range(2))
    repeats = of_runs(base.astype(float), candidate.astype(float))
    differences = candidate.mean(1) - base.mean(1)
    found = bound_over_runs(differences, confidence=0.95, reach=1.0, step=1.0, repeats=repeats)
    assert found is not None
    variance = sum(np.var(side, axis=1, ddof=1).sum() / 8 for side in (base, candidate))
    assert found.stderr == pytest.approx(np.sqrt(variance) / 50, rel=1e-3)


def test_fixed_tasks_with_one_run_each_say_why_not() -> None:
    once = Repeats(base=np.ones(4), candidate=np.ones(4), squares=np.zeros(4))
    found = compare_paired(
        [0, 1, 0, 1], [1, 1, 0, 1], binary=True, higher_is_better=True, repeats=once, fixed=True
    )
    assert (found.low, found.p_value, found.reason) == (None, None, RUN_ONCE)


def of_runs(base: Any, candidate: Any) -> Repeats:
    """Count the runs of each side; NaN is no run."""
    sides = (base, candidate)
    squares = sum(
        np.nansum(np.square(side - np.nanmean(side, axis=1, keepdims=True)), axis=1)
        for side in sides
    )
    known = [np.isfinite(side).sum(axis=1).astype(float) for side in sides]
    return Repeats(base=known[0], candidate=known[1], squares=np.asarray(squares))


# Coverage


@pytest.mark.parametrize("metric", ["brier", "pass_hat_1", "behavior_coverage", "impl_rate"])
@pytest.mark.parametrize(("n", "share"), [(5, 0.25), (10, 0.15), (20, 0.07), (50, 0.03)])
def test_tasks_that_fell_from_one_end_to_the_other(metric: str, n: int, share: float) -> None:
    """A few right answers, stated with .99, became wrong: exact over all their numbers."""
    scale = pair_scale(catalogue()[metric])
    covered = 0.0
    for lost in range(n + 1):
        differences = np.where(np.arange(n) < lost, 0.98, 0.0)
        found = compare_paired(
            np.zeros(n),
            differences,
            binary=False,
            higher_is_better=False,
            reach=scale.reach,
            step=scale.step,
        )
        assert found.low is not None
        assert found.high is not None
        if found.low <= 0.98 * share <= found.high:
            covered += binom.pmf(lost, n, share)
    assert covered >= 0.93


def one_against_ten(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    ease = rng.beta(19, 1, n)[:, None]
    return (rng.random((n, 1)) < ease).astype(float), (rng.random((n, 10)) < ease).astype(float)


def four_against_four(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    ease = rng.beta(9, 1, n)[:, None]
    return (rng.random((n, 4)) < ease).astype(float), (rng.random((n, 4)) < ease).astype(float)


def uneven(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    ease = rng.beta(9, 1, n)[:, None]
    sides = []
    for _ in range(2):
        side = (rng.random((n, 8)) < ease).astype(float)
        side[np.arange(8) >= rng.integers(1, 9, n)[:, None]] = np.nan
        sides.append(side)
    return sides[0], sides[1]


@pytest.mark.long
@pytest.mark.parametrize("n", [5, 10, 20, 50, 200])
@pytest.mark.parametrize("draw", [one_against_ten, four_against_four, uneven])
def test_runs_of_systems_that_are_alike(draw: Callable[..., Any], n: int) -> None:
    """Student's test rejects in up to 29 % of these."""
    rng = np.random.default_rng(n)
    rejected = 0
    for _ in range(2000):
        base, candidate = draw(rng, n)
        found = bound_over_tasks(
            np.nanmean(candidate, axis=1) - np.nanmean(base, axis=1),
            confidence=0.95,
            reach=1.0,
            step=1.0,
            repeats=of_runs(base, candidate),
        )
        rejected += found.p_value < 0.05
    assert rejected / 2000 <= 0.065


@pytest.mark.long
@pytest.mark.parametrize("n", [5, 10, 20, 50, 200])
@pytest.mark.parametrize("share", [0.02, 0.1])
def test_ratings_of_which_a_few_got_worse(n: int, share: float) -> None:
    """Student's interval holds the truth in as few as 15 % of these."""
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(2000):
        differences = np.where(rng.random(n) < share, -0.5, 0.0)
        found = bound_over_tasks(differences, confidence=0.95, reach=1.0, step=0.5)
        held += found.low <= -0.5 * share <= found.high
    assert held / 2000 >= 0.93
