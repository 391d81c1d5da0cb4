"""Independent samples: against scipy, published examples, plain Python, and by coverage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from calipers.statistics.unpaired import (
    cliff_delta,
    compare_unpaired,
    fisher_p,
    kruskal_wallis,
    mann_whitney,
    newcombe,
)

values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6))
samples = st.lists(values, min_size=2, max_size=25)
grades = st.lists(st.integers(0, 4).map(float), min_size=2, max_size=15)


def arrays(*given_samples: Sequence[float]) -> list[Any]:
    return [np.array(sample, dtype=float) for sample in given_samples]


# Zeros and ones


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((10, 10), (0, 20), (0.6791, 1.0000)),
        ((10, 10), (0, 10), (0.6075, 1.0000)),
    ],
)
def test_newcombe_published(
    after: tuple[int, int], before: tuple[int, int], expected: tuple[float, float]
) -> None:
    """Newcombe (1998), Statistics in Medicine 17, table II, method 10."""
    found = newcombe(
        before[0] / before[1], before[1], after[0] / after[1], after[1], confidence=0.95
    )
    assert found == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize(
    ("n", "m", "p", "q"), [(20, 20, 0.5, 0.5), (30, 20, 0.3, 0.6), (40, 40, 0.1, 0.2)]
)
def test_newcombe_covers(n: int, m: int, p: float, q: float) -> None:
    """Over every outcome there is, weighted by its probability: no simulation error."""
    chances = np.outer(stats.binom.pmf(range(n + 1), n, p), stats.binom.pmf(range(m + 1), m, q))
    covered = 0.0
    for (first, second), chance in np.ndenumerate(chances):
        low, high = newcombe(first / n, n, second / m, m, confidence=0.95)
        covered += chance * (low <= q - p <= high)
    assert 0.93 <= covered <= 0.97


@given(first=st.integers(0, 15), n=st.integers(1, 15), second=st.integers(0, 15), m=st.just(15))
def test_fisher_counts_the_tables_as_unlikely(first: int, n: int, second: int, m: int) -> None:
    first = min(first, n)

    def chance(hits: int) -> float:
        return math.comb(n, hits) * math.comb(m, first + second - hits) / whole

    whole = math.comb(n + m, first + second)
    possible = range(max(0, first + second - m), min(n, first + second) + 1)
    expected = sum(chance(hits) for hits in possible if chance(hits) <= chance(first) * 1.0000001)
    assert fisher_p(first, n, second, m) == pytest.approx(expected)


def test_proportions() -> None:
    found = compare_unpaired([1, 0, 0, 0, 0], [1, 1, 1, 0], binary=True)
    assert found.difference == pytest.approx(0.55)
    assert found.stderr == pytest.approx(math.sqrt(0.2 * 0.8 / 5 + 0.75 * 0.25 / 4))
    assert found.effect == pytest.approx(2 * math.asin(0.75**0.5) - 2 * math.asin(0.2**0.5))
    assert (found.test, found.interval, found.effect_name) == (
        "Fisher's exact",
        "Newcombe",
        "Cohen's h",
    )
    assert (found.n_base, found.n_candidate, found.rank_p) == (5, 4, None)


@pytest.mark.parametrize("bit", [0, 1])
def test_all_alike_still_has_an_interval(bit: int) -> None:
    found = compare_unpaired([bit] * 10, [bit] * 12, binary=True)
    assert (found.difference, found.p_value, found.reason) == (0.0, 1.0, None)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


# Means


@pytest.mark.filterwarnings("ignore:Precision loss")  # of scipy
@given(base=samples, candidate=samples)
def test_welch_is_that_of_scipy(base: list[float], candidate: list[float]) -> None:
    found = compare_unpaired(base, candidate, binary=False, confidence=0.9)
    if found.reason:
        return
    expected = stats.ttest_ind(candidate, base, equal_var=False)
    interval = expected.confidence_interval(0.9)
    slack = 1e-9 * max(map(abs, base + candidate))
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-5, abs=1e-12)
    assert found.low == pytest.approx(interval.low, rel=1e-6, abs=slack)
    assert found.high == pytest.approx(interval.high, rel=1e-6, abs=slack)


def test_clusters_are_the_units() -> None:
    """Equal clusters: the test of their means."""
    rng = np.random.default_rng(0)
    base, candidate = rng.normal(size=(7, 4)), rng.normal(0.5, 2, size=(9, 3))
    found = compare_unpaired(
        base.ravel(),
        candidate.ravel(),
        binary=False,
        base_clusters=np.repeat(np.arange(7), 4),
        candidate_clusters=np.repeat(list("abcdefghi"), 3),
    )
    means = base.mean(axis=1), candidate.mean(axis=1)
    expected = stats.ttest_ind(means[1], means[0], equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.rank_p == pytest.approx(stats.mannwhitneyu(*means, method="exact").pvalue)
    assert found.effect == pytest.approx(slow_cliff(*means)[0])
    assert found.test == "clustered Welch t"
    assert found.rank_test == "Mann–Whitney (exact) of cluster means"
    assert found.effect_name == "Cliff's delta of cluster means"


def test_one_sample_alone_may_have_clusters() -> None:
    grouped = compare_unpaired(
        [1.0, 2.0, 4.0, 5.0], [0.0, 1.0], binary=False, base_clusters=list("aabb")
    )
    assert grouped.stderr == pytest.approx(math.hypot(1.5, 0.5))
    zeros_and_ones = compare_unpaired([0, 1, 1, 1], [0, 1], binary=True, base_clusters=list("aabb"))
    assert zeros_and_ones.test == "clustered Welch t"


def coverage(draw: Callable[[], Any], truth: float, datasets: int = 1000) -> float:
    covered = 0
    for _ in range(datasets):
        base, candidate, base_clusters, candidate_clusters = draw()
        found = compare_unpaired(
            base,
            candidate,
            binary=False,
            base_clusters=base_clusters,
            candidate_clusters=candidate_clusters,
        )
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    return covered / datasets


@pytest.mark.long
def test_welch_covers() -> None:
    rng = np.random.default_rng(1)

    def draw() -> Any:
        return rng.normal(0, 3, size=10), rng.normal(1, 1, size=25), None, None

    assert 0.93 <= coverage(draw, 1.0) <= 0.97


def test_clustered_welch_covers() -> None:
    rng = np.random.default_rng(2)
    first, second = np.repeat(np.arange(15), 5), np.repeat(np.arange(25), 1 + np.arange(25) % 4)

    def draw() -> Any:
        base = rng.normal(size=15)[first] + rng.normal(size=first.size)
        candidate = 0.5 + rng.normal(0, 2, size=25)[second] + rng.normal(size=second.size)
        return base, candidate, first, second

    assert 0.93 <= coverage(draw, 0.5) <= 0.97


# Ranks


def dominance(base: Sequence[float], candidate: Sequence[float]) -> Any:
    """Who is above whom, for all pairs, and the three variances that Cliff takes from it."""
    matrix = np.sign(np.subtract.outer(np.asarray(candidate), np.asarray(base)))
    n, m = matrix.shape
    rows = matrix.mean(axis=1).var(ddof=1)
    columns = matrix.mean(axis=0).var(ddof=1)
    cells = ((matrix - matrix.mean()) ** 2).sum() / ((n - 1) * (m - 1))
    return matrix, rows, columns, cells


def asymmetric(delta: float, variance: float, quantile: float) -> tuple[float, float]:
    """The interval of Feng & Cliff (2004)."""
    reach = quantile * math.sqrt(variance) * math.sqrt((1 - delta**2) ** 2 + quantile**2 * variance)
    whole = 1 - delta**2 + quantile**2 * variance
    return (delta - delta**3 - reach) / whole, (delta - delta**3 + reach) / whole


def slow_cliff(base: Sequence[float], candidate: Sequence[float]) -> tuple[float, float, float]:
    """Delta with its 95 % interval from the matrix of all pairs, by the consistent variance."""
    matrix, rows, columns, cells = dominance(base, candidate)
    n, m = matrix.shape
    delta = matrix.mean()
    variance = ((m - 1) * rows + (n - 1) * columns + cells) / (n * m)
    variance = max(variance, (1 - delta**2) / (n * m - 1))
    return delta, *asymmetric(delta, variance, float(stats.t.ppf(0.975, n + m - 2)))


def test_the_reference_gives_published_figures() -> None:
    # Hogarty & Kromrey (1999), as the R package effsize keeps their example. Its interval is that
    # of the unbiased variance; the terms of both variances are the same.
    candidate = [10, 10, 20, 20, 20, 30, 30, 30, 40, 50]
    base = [10, 20, 30, 40, 40, 50]
    matrix, *terms = dominance(base, candidate)
    assert terms == pytest.approx([0.2669753, 0.447, 1.0055556], abs=5e-8)
    rows, columns, cells = (term * by for term, by in zip(terms, [9, 5, 45], strict=True))
    unbiased = (6**2 * rows + 10**2 * columns - cells) / (10 * 6 * 9 * 5)
    found = asymmetric(matrix.mean(), unbiased, float(stats.t.ppf(0.975, 14)))
    assert (matrix.mean(), *found) == pytest.approx((-0.25, -0.7265846, 0.3890062), abs=5e-8)


@given(base=grades, candidate=grades)
def test_cliff_is_that_of_all_pairs(base: list[float], candidate: list[float]) -> None:
    found = cliff_delta(*arrays(base, candidate), confidence=0.95)
    assume(abs(found[0]) < 1)
    assert found == pytest.approx(slow_cliff(base, candidate), abs=1e-12)
    assert found[1] is not None
    assert found[2] is not None
    assert -1 <= found[1] <= found[0] <= found[2] <= 1


def test_cliff_without_overlap() -> None:
    """Wilson's bound for the smaller sample, doubled and moved to the scale of delta."""
    t = stats.t.ppf(0.975, 11)
    proportion = 5 / (5 + t**2)
    delta, low, high = cliff_delta(np.arange(5.0), np.arange(10.0, 18.0), confidence=0.95)
    assert low == pytest.approx(2 * proportion - 1)
    assert (delta, high) == (1.0, 1.0)
    mirrored = cliff_delta(np.arange(10.0, 18.0), np.arange(5.0), confidence=0.95)
    assert mirrored == (-1.0, -1.0, -low if low is not None else None)
    assert cliff_delta(np.array([1.0]), np.arange(3.0), confidence=0.95) == (0.0, None, None)


@pytest.mark.parametrize(("n", "m", "shift"), [(20, 30, 0.0), (20, 30, 2.0), (40, 40, 0.5)])
def test_cliff_covers(n: int, m: int, shift: float) -> None:
    rng = np.random.default_rng(n)
    truth = 2 * stats.norm.cdf(shift / math.sqrt(2)) - 1
    covered = 0
    for _ in range(2000):
        base, candidate = rng.normal(size=n), rng.normal(shift, 1, size=m)
        _, low, high = cliff_delta(base, candidate, confidence=0.95)
        assert low is not None
        assert high is not None
        covered += low <= truth <= high
    assert 0.93 <= covered / 2000 <= 0.97


def test_mann_whitney_small_is_exact() -> None:
    base, candidate = [1.0, 4.0, 2.5, 9.0], [3.0, 5.0, 10.0, 11.0, 7.0]
    pool = sorted(base + candidate)
    observed = sum(pool.index(value) for value in candidate)
    middle = 5 * 8 / 2
    ways = [sum(chosen) for chosen in itertools.combinations(range(9), 5)]
    extreme = sum(abs(way - middle) >= abs(observed - middle) for way in ways)
    p_value, how = mann_whitney(*arrays(base, candidate))
    assert p_value == pytest.approx(extreme / len(ways))
    assert how == "Mann–Whitney (exact)"


@given(base=grades, candidate=grades)
def test_mann_whitney_corrects_for_ties(base: list[float], candidate: list[float]) -> None:
    pool = base + candidate
    assume(len(set(pool)) > 1)
    assume(len(set(pool)) < len(pool))
    n, m = len(candidate), len(base)
    u = sum((a > b) + (a == b) / 2 for a in candidate for b in base)
    ties = sum(pool.count(value) ** 3 - pool.count(value) for value in set(pool))
    variance = n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1)))
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    p_value, how = mann_whitney(*arrays(base, candidate))
    assert how == "Mann–Whitney (asymptotic)"
    assert p_value == pytest.approx(2 * stats.norm.sf(z), rel=1e-6)


@given(groups=st.lists(grades, min_size=2, max_size=5))
def test_kruskal_wallis(groups: list[list[float]]) -> None:
    pool = [value for group in groups for value in group]
    found = kruskal_wallis(groups)
    assert found.n == len(pool)
    if len(set(pool)) == 1:
        assert (found.h, found.p_value, found.reason) == (None, None, "all values are equal")
        return
    n = len(pool)
    rank = {v: sum(w < v for w in pool) + (pool.count(v) + 1) / 2 for v in set(pool)}
    squares = sum(sum(rank[v] for v in group) ** 2 / len(group) for group in groups)
    h = 12 / (n * (n + 1)) * squares - 3 * (n + 1)
    h /= 1 - sum(pool.count(v) ** 3 - pool.count(v) for v in set(pool)) / (n**3 - n)
    assert found.h == pytest.approx(h, abs=1e-9)
    assert found.p_value == pytest.approx(stats.chi2.sf(h, len(groups) - 1), abs=1e-9)
    assert found.epsilon_squared == pytest.approx(h / (n - 1), abs=1e-9)


def test_kruskal_wallis_of_one_sample() -> None:
    assert kruskal_wallis([]).reason == "fewer than two samples hold values"
    assert kruskal_wallis([[1.0, 2.0], []]).reason == "fewer than two samples hold values"


# What is missing says why


@pytest.mark.parametrize(
    ("base", "candidate", "reason"),
    [
        ([], [1.0], "a sample is empty"),
        ([1.0], [1.0, 2.0], "a single value or cluster does not show how much others vary"),
        ([1.0, 1.0], [2.0, 2.0], "nothing varies, so the role of chance is unknown"),
        ([0.0, 0.0], [0.0, 0.0], "nothing varies, so the role of chance is unknown"),
    ],
)
def test_missing(base: list[float], candidate: list[float], reason: str) -> None:
    found = compare_unpaired(base, candidate, binary=False)
    assert (found.low, found.high, found.p_value, found.reason) == (None, None, None, reason)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        compare_unpaired([1.0, math.inf], [1.0], binary=False)
    with pytest.raises(ValueError, match="0 or 1"):
        compare_unpaired([0.5], [1.0], binary=True)


@given(
    base=st.lists(values, max_size=12),
    candidate=st.lists(values, max_size=12),
    clusters=st.none() | st.lists(st.integers(0, 3), min_size=12),
)
def test_nothing_is_nan_and_the_roles_mirror(
    base: list[float], candidate: list[float], clusters: list[int] | None
) -> None:
    labels = clusters[: len(base)] if clusters else None
    found = compare_unpaired(base, candidate, binary=False, base_clusters=labels)
    assert not any(isinstance(value, float) and math.isnan(value) for value in astuple(found))
    mirrored = compare_unpaired(candidate, base, binary=False, candidate_clusters=labels)
    assert mirrored.p_value == pytest.approx(found.p_value)
    assert mirrored.rank_p == pytest.approx(found.rank_p)
    if found.effect is not None:
        assert mirrored.effect == pytest.approx(-found.effect)
