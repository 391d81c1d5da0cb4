"""Exact and rank tests: against scipy, and by enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calipers.statistics.unpaired import (
    fisher_p,
    kruskal,
    mann_whitney_exact,
    mann_whitney_normal,
    rank_average,
    spearman,
)

samples = st.lists(st.integers(0, 8), min_size=1, max_size=30).map(
    lambda values: np.array(values, float)
)


@given(st.data(), st.integers(1, 20_000), st.integers(1, 20_000))
def test_fisher(data: st.DataObject, n: int, m: int) -> None:
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    expected = float(stats.fisher_exact(np.array([[a, b], [n - a, m - b]])).pvalue)
    assert fisher_p(a, n, b, m) == pytest.approx(expected, rel=1e-9, abs=1e-280)


def test_fisher_of_equal_samples_counts_both_sides() -> None:
    # Where both tails are equally probable, rounding may not leave one out.
    assert fisher_p(400_600, 800_000, 399_400, 800_000) == pytest.approx(
        2 * float(stats.hypergeom(1_600_000, 800_000, 800_000).cdf(399_400)), rel=1e-9
    )


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 5), (4, 4), (5, 3)])
def test_mann_whitney_exact_is_an_enumeration(n: int, m: int) -> None:
    found = [sum(places) - n * (n - 1) // 2 for places in combinations(range(n + m), n)]
    for u in range(n * m + 1):
        as_far = sum(abs(each - n * m / 2) >= abs(u - n * m / 2) for each in found)
        assert mann_whitney_exact(u, n, m) == pytest.approx(as_far / len(found), rel=1e-14)


@given(samples, samples)
def test_mann_whitney_normal(first: np.ndarray, second: np.ndarray) -> None:
    ties = rank_average(np.concatenate([first, second]))[1]
    if ties.size == 1:
        return
    found = stats.mannwhitneyu(first, second, method="asymptotic")
    p = mann_whitney_normal(float(found.statistic), first.size, second.size, ties)
    assert p == pytest.approx(float(found.pvalue), rel=1e-12)


@given(st.lists(samples, min_size=2, max_size=9))
def test_kruskal(several: list[np.ndarray]) -> None:
    if np.ptp(np.concatenate(several)) == 0:
        return
    expected = stats.kruskal(*several)
    h, p = kruskal(several)
    assert h == pytest.approx(float(expected.statistic), rel=1e-10, abs=1e-10)
    assert p == pytest.approx(float(expected.pvalue), rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=60))
def test_spearman(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, float).T
    if not (np.ptp(first) and np.ptp(second)):
        return
    expected = stats.spearmanr(first, second)
    correlation, p = spearman(first, second)
    assert correlation == pytest.approx(float(expected.statistic), rel=1e-12, abs=1e-14)
    if abs(correlation) < 1 - 1e-9:
        assert p == pytest.approx(float(expected.pvalue), rel=1e-8)
