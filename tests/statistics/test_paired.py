"""Paired comparisons: against scipy, published tables, plain Python, and by coverage."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calipers.statistics import paired_tests as module
from calipers.statistics.paired import Comparison, compare_paired, holm
from calipers.statistics.paired_tests import bonett_price, mcnemar, permute_signs
from tests.conformance import interval_errors
from tests.examples import examples, first_of

values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6))
value_pairs = st.lists(st.tuples(values, values), max_size=25)
binary_pairs = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40)


def of_pairs(pairs: Sequence[tuple[float, float]], **options: Any) -> Comparison:
    base, candidate = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    given_options = {"binary": False, "higher_is_better": True, "resamples": 99} | options
    return compare_paired(base, candidate, **given_options)


# Zeros and ones


@given(higher=st.integers(0, 200), lower=st.integers(0, 200))
def test_mcnemar_counts_half_of_what_was_seen(higher: int, lower: int) -> None:
    changed = higher + lower
    exact = stats.binomtest(higher, changed, 0.5).pvalue if changed else 1.0
    expected = exact - stats.binom.pmf(higher, changed, 0.5) if higher != lower else 1.0
    assert mcnemar(higher, lower) == pytest.approx(expected)


def test_published_table() -> None:
    # Cavo et al. (2012) in Fagerland, Lydersen & Laake, Statistical Analysis of Contingency
    # Tables, chapter 8; p as the authors' package `contingencytables` gives it, the interval by hand:
    # −10/163 ± 1.96 · √((24/163 − (10/163)²) / 163).
    pairs = [(1, 1)] * 59 + [(0, 1)] * 6 + [(1, 0)] * 16 + [(0, 0)] * 80
    found = of_pairs(pairs, binary=True)
    assert found.p_value == pytest.approx(0.034690, abs=5e-7)
    assert found.difference == pytest.approx(-0.0621, abs=5e-5)
    assert (found.low, found.high) == pytest.approx((-0.1195, -0.0032), abs=5e-5)
    assert (found.test, found.interval) == ("mid-p McNemar", "Bonett-Price")
    assert (found.wins, found.losses, found.ties, found.n_pairs) == (6, 16, 139, 161)
    assert found.effect == pytest.approx(6 / 22 - 0.5)
    assert found.effect_name == "Cohen's g"
    assert found.stderr == pytest.approx(np.std([1] * 6 + [-1] * 16 + [0] * 139, ddof=1) / 161**0.5)


@given(higher=st.integers(0, 500), lower=st.integers(0, 500), same=st.integers(0, 500))
def test_bonett_price_holds_the_estimate_and_mirrors(higher: int, lower: int, same: int) -> None:
    n = higher + lower + same or 1
    low, high = bonett_price(higher, lower, n, confidence=0.95)
    assert -1 <= low <= (higher - lower) / n <= high <= 1
    assert low < high
    assert bonett_price(lower, higher, n, confidence=0.95) == (-high, -low)
    wider = bonett_price(higher, lower, n, confidence=0.99)
    assert wider[0] <= low
    assert wider[1] >= high


@pytest.mark.parametrize(
    ("n", "up", "down"),
    [(20, 0.1, 0.1), (30, 0.3, 0.05), (50, 0.2, 0.1), (50, 0.4, 0.2), (100, 0.05, 0.02)],
)
def test_bonett_price_covers(n: int, up: float, down: float) -> None:
    """Over every table there is, weighted by its probability: no simulation error."""
    covered = 0.0
    for higher in range(n + 1):
        chances = stats.multinomial.pmf(
            [[higher, lower, n - higher - lower] for lower in range(n + 1 - higher)],
            n,
            [up, down, 1 - up - down],
        )
        for lower, chance in enumerate(chances):
            if chance > 1e-7:
                low, high = bonett_price(higher, lower, n, confidence=0.95)
                covered += chance * (low <= up - down <= high)
    assert 0.93 <= covered <= 0.985


def test_binary_coverage_by_simulation() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(2000):
        skill = rng.random(80)
        first, second = rng.random(80) < skill, rng.random(80) < np.minimum(1, skill + 0.1)
        found = compare_paired(first, second, binary=True, higher_is_better=True)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.1 - 0.1**2 / 2 <= found.high  # the mean of min(1, U + 0.1) − U
    assert 0.93 <= covered / 2000 <= 0.97


@given(pairs=binary_pairs)
def test_binary_edges(pairs: list[tuple[bool, bool]]) -> None:
    found = of_pairs(pairs, binary=True)
    assert (found.reason == "no pairs") == (not pairs)
    assert (found.effect is None) == all(first == second for first, second in pairs)
    assert found.permutation_p is None  # McNemar's test is the flip of signs


# Real values: t, clustered t


@pytest.mark.filterwarnings("ignore:Precision loss")  # of scipy
@given(pairs=st.lists(st.tuples(values, values), min_size=2, max_size=30))
def test_t_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    found = of_pairs(pairs, confidence=0.9)
    if found.reason or found.test != "paired t":
        return
    differences = [second - first for first, second in pairs]
    if abs(stats.skew(differences, bias=False)) > (6 / len(pairs)) ** 0.5:
        return  # a long tail is allowed for (`skewed_reach`)
    expected = stats.ttest_1samp(differences, 0.0)
    interval = expected.confidence_interval(0.9)
    scale = max(abs(value) for pair in pairs for value in pair)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert found.low == pytest.approx(interval.low, rel=1e-6, abs=1e-9 * scale)
    assert found.high == pytest.approx(interval.high, rel=1e-6, abs=1e-9 * scale)
    assert found.effect == pytest.approx(expected.statistic / len(pairs) ** 0.5, rel=1e-6)


def clustered_error(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """CR2 and its degrees of freedom, in plain Python."""
    rows = list(zip(differences, clusters, strict=True))
    mean = sum(differences) / len(differences)
    effects = [difference - mean for difference in differences]
    return math.sqrt(interval_errors._variance(effects, rows)), interval_errors._degrees(
        effects, rows
    )


@pytest.mark.parametrize("binary", [False, True])
def test_clusters_are_the_units(binary: bool) -> None:  # noqa: FBT001
    first = [0, 1, 1, 0, 0, 1, 0, 1, 0]
    second = [1, 1, 1, 1, 0, 0, 1, 1, 1]
    clusters = list("aaabbcccc")
    found = of_pairs(list(zip(first, second, strict=True)), binary=binary, clusters=clusters)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    stderr, degrees = clustered_error(differences, clusters)
    assert found.stderr == pytest.approx(stderr)
    t = sum(differences) / 9 / stderr
    assert found.p_value == pytest.approx(2 * stats.t.sf(t, degrees))
    reach = stats.t.ppf(0.975, degrees) * stderr
    assert (found.low, found.high) == pytest.approx((3 / 9 - reach, 3 / 9 + reach))
    assert found.test == "clustered paired t"
    # Signs flip per cluster: totals 1, 1, 1 are as far from 0 in 2 of 8 patterns. So few can never
    # reject, and leave p to t.
    assert found.permutation_p == pytest.approx(2 / 8)


def test_flips_of_clusters_decide_and_the_interval_agrees() -> None:
    rng = np.random.default_rng(37)
    decided = []
    for _ in range(60):
        sizes = rng.integers(1, 30, 9)
        clusters = np.repeat(np.arange(9), sizes)
        apart = np.repeat(rng.normal(0.4, 0.5, 9), sizes) + rng.normal(size=clusters.size)
        found = of_pairs([(0.0, each) for each in apart], clusters=clusters)
        totals = [apart[clusters == each].sum() for each in range(9)]
        flips = [abs(np.dot(signs, totals)) for signs in itertools.product((1, -1), repeat=9)]
        expected = np.mean([each >= abs(sum(totals)) * (1 - 1e-12) for each in flips])
        assert found.p_value == found.permutation_p == pytest.approx(expected)
        assert found.low is not None
        assert found.high is not None
        assert found.p_value is not None
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)
        assert found.test == "sign flips per cluster"
        decided.append(found.p_value < 0.05)
    assert 10 < sum(decided) < 55


@given(pairs=st.lists(st.tuples(values, values), min_size=1, max_size=20))
def test_a_cluster_per_pair_changes_nothing(pairs: list[tuple[float, float]]) -> None:
    alone = of_pairs(pairs)
    grouped = of_pairs(pairs, clusters=np.arange(len(pairs)))
    assert (alone.p_value, alone.permutation_p) == pytest.approx(
        (grouped.p_value, grouped.permutation_p)
    )
    assert (alone.low, alone.high, alone.stderr, alone.reason) == pytest.approx(
        (grouped.low, grouped.high, grouped.stderr, grouped.reason)
    )


def coverage(draw: Any, truth: float, datasets: int = 1500) -> float:
    covered = 0
    for _ in range(datasets):
        differences, clusters = draw()
        found = compare_paired(
            np.zeros(len(differences)),
            differences,
            binary=False,
            higher_is_better=True,
            resamples=1,
            clusters=clusters,
        )
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= truth <= found.high
    return covered / datasets


@pytest.mark.parametrize("n", [5, 30])
def test_t_covers(n: int) -> None:
    rng = np.random.default_rng(n)
    assert 0.93 <= coverage(lambda: (0.3 + rng.normal(size=n), None), 0.3) <= 0.97


def test_t_covers_heavy_tails() -> None:
    rng = np.random.default_rng(1)
    assert coverage(lambda: (0.3 + rng.standard_t(3, size=30), None), 0.3) >= 0.9


@pytest.mark.parametrize(
    "sizes", first_of([[1, 2, 3, 4, 5] * 4, [6] * 10, [6] * 30, [1, 1, 2, 9] * 10])
)
def test_clustered_t_covers(sizes: list[int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes)

    def draw() -> tuple[Any, Any]:
        shared = rng.normal(size=len(sizes))[labels]
        return 0.3 + shared + rng.normal(size=labels.size), labels

    assert 0.93 <= coverage(draw, 0.3) <= 0.97
    assert coverage(lambda: (draw()[0], None), 0.3, datasets=500) < 0.93, "clusters matter"


# Flipped signs


def flipped_p(differences: Sequence[float]) -> float:
    """Every pattern of signs, in plain Python."""
    observed = abs(math.fsum(differences)) - 1e-9
    patterns = list(itertools.product([1, -1], repeat=len(differences)))
    sums = (
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True))) for signs in patterns
    )
    return sum(each >= observed for each in sums) / len(patterns)


@examples(40)
@given(differences=st.lists(st.integers(-20, 20).map(lambda value: value / 10), max_size=8))
def test_few_flips_are_all_tried(differences: list[float]) -> None:
    found = permute_signs(np.array(differences, dtype=float), seed=0, resamples=1)
    assert found == pytest.approx(flipped_p(differences))


def test_flips_agree_with_scipy() -> None:
    differences = np.random.default_rng(3).normal(0.4, 1, size=12)
    expected = stats.permutation_test(
        (differences, np.zeros(12)),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=2**12,  # no more than there are: all of them
    )
    assert permute_signs(differences, seed=0, resamples=1) == pytest.approx(expected.pvalue)


def test_many_flips_come_near_the_exact_p(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(4).normal(0.5, 1, size=15)
    exact = permute_signs(differences, seed=0, resamples=1)
    assert exact is not None
    monkeypatch.setattr(module, "EXACT", 0)
    assert permute_signs(differences, seed=0, resamples=0) is None
    drawn = [permute_signs(differences, seed=seed, resamples=20_000) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))


@pytest.mark.parametrize("scale", [2.0**-500, 2.0**300, 2.0**900])
def test_flips_do_not_depend_on_the_unit(scale: float) -> None:
    differences = np.linspace(-1, 3, 50)
    found = permute_signs(differences, seed=0, resamples=99)
    assert permute_signs(differences * scale, seed=0, resamples=99) == found


def test_zeros_do_not_count_as_flips() -> None:
    differences = np.array([1.0, 1.0, 1.0])
    padded = np.concatenate([differences, np.zeros(100)])
    assert permute_signs(padded, seed=0, resamples=9) == permute_signs(
        differences, seed=0, resamples=9
    )
    assert permute_signs(np.zeros(30), seed=0, resamples=9) == 1.0


@pytest.mark.parametrize("n", [12, 60])
def test_flipped_p_is_uniform_without_a_difference(n: int) -> None:
    rng = np.random.default_rng(n)
    found = np.array(
        [
            permute_signs(
                rng.standard_t(2, size=n), seed=seed, resamples=199
            )  # heavy tails: no matter
            for seed in range(1500)
        ]
    )
    for level in (0.05, 0.1, 0.25, 0.5, 0.9):
        assert np.mean(found <= level) == pytest.approx(
            level, abs=4 * math.sqrt(level * (1 - level) / 1500)
        )


@pytest.mark.parametrize("wins", [10_000, 10_050, 10_140, 10_200, 10_300])
def test_very_many_flips_are_normal(wins: int) -> None:
    """The sum of 20,000 signs is twice a binomial count, less 20,000."""
    signs = np.repeat([1.0, -1.0], [wins, 20_000 - wins])
    found = permute_signs(signs, seed=0, resamples=1)
    exact = stats.binomtest(wins, 20_000).pvalue
    assert found == pytest.approx(exact, abs=0.001 if exact < 0.05 else 0.006)
    assert permute_signs(signs, seed=0, resamples=0) is None


def test_few_large_differences_among_very_many_are_flipped() -> None:
    """Two in 30,000 decide the sum: it is near ±2,000 or 0, which no normal distribution is."""
    differences = np.concatenate([np.full(2, 1000.0), np.tile([0.01, -0.01], 15_000)])
    found = permute_signs(differences, seed=0, resamples=1000)
    assert found == pytest.approx(0.25, abs=0.06)  # the normal limit would be 0.157


@pytest.mark.long
@pytest.mark.parametrize("kind", ["signs", "tenths", "normal", "lognormal", "mostly zero"])
@pytest.mark.parametrize("z", [0.5, 1.5, 2.0, 2.6, 3.3])
def test_the_normal_limit_agrees_with_flips(
    kind: str, z: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11)
    draws: dict[str, Callable[[int], Any]] = {
        "signs": np.ones,
        "tenths": lambda n: rng.integers(1, 11, size=n) / 10,
        "normal": lambda n: np.abs(rng.normal(size=n)),
        "lognormal": lambda n: rng.lognormal(0, 0.7, size=n),
        "mostly zero": lambda n: rng.integers(0, 2, size=n) * rng.random(n),
    }
    draw = draws[kind]
    sizes = draw(module.NORMAL)
    while np.square(sizes).sum() ** 2 < module.NORMAL * np.power(sizes, 4).sum():
        sizes = np.concatenate([sizes, draw(2000)])  # just at the limit
    signs = rng.choice([-1.0, 1.0], size=sizes.size)
    for place in np.argsort(signs):  # turned until the sum is z standard errors
        if (signs * sizes).sum() >= z * np.sqrt(np.square(sizes).sum()):
            break
        signs[place] = 1.0
    limit = permute_signs(signs * sizes, seed=0, resamples=1)
    monkeypatch.setattr(module, "NORMAL", math.inf)
    flipped = permute_signs(signs * sizes, seed=0, resamples=10_000)
    assert limit is not None
    assert flipped == pytest.approx(limit, abs=0.006 + 4 * math.sqrt(limit / 10_000))
    if limit < 0.05:
        assert flipped == pytest.approx(limit, abs=0.001 + 4 * math.sqrt(limit / 10_000))


def test_flips_fit_in_little_memory() -> None:
    differences = np.random.default_rng(0).normal(size=20_000)
    tracemalloc.start()
    permute_signs(differences, seed=0, resamples=1000)  # 20 million flips, 160 MB as a matrix
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


# What is missing says why


def test_no_pairs() -> None:
    for binary in (False, True):
        found = of_pairs([], binary=binary)
        assert (found.difference, found.low, found.p_value, found.n_pairs) == (None, None, None, 0)
        assert found.reason == "no pairs"


def test_one_pair() -> None:
    found = of_pairs([(1.0, 3.0)])
    assert (found.difference, found.wins, found.stderr) == (2.0, 1, None)
    assert (found.low, found.high, found.p_value, found.effect) == (None, None, None, None)
    assert found.reason == "a single value or cluster does not show how much others vary"
    assert found.permutation_p == 1.0


def test_one_cluster() -> None:
    found = of_pairs([(1.0, 3.0), (1.0, 2.0)], clusters=["a", "a"])
    assert found.p_value is None
    assert found.reason == "a single value or cluster does not show how much others vary"
    assert found.effect is not None


def test_the_same_difference_everywhere() -> None:
    found = of_pairs([(0.1, 0.4), (0.2, 0.5), (0.3, 0.6), (0.5, 0.8)])  # up to rounding
    assert (found.p_value, found.low, found.effect) == (None, None, None)
    assert found.reason == "nothing varies, so the role of chance is unknown"
    assert found.permutation_p == 2 / 16


def test_rounding_is_a_tie() -> None:
    found = of_pairs([(0.3, 0.1 + 0.2), (1e9, 1e9 + 1e-4), (0.0, 1e-9)])
    assert (found.wins, found.ties) == (1, 2)


@pytest.mark.parametrize(("better", "wins", "losses"), [(True, 2, 1), (None, 2, 1), (False, 1, 2)])
def test_a_win_is_better(better: bool | None, wins: int, losses: int) -> None:  # noqa: FBT001
    found = of_pairs([(1, 2), (1, 3), (4, 3), (5, 5)], higher_is_better=better)
    assert (found.wins, found.losses, found.ties) == (wins, losses, 1)
    assert found.difference == 0.5


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        of_pairs([(1.0, math.nan)])
    with pytest.raises(ValueError, match="0 or 1"):
        of_pairs([(0.5, 1.0)], binary=True)
    with pytest.raises(ValueError, match="paired with"):
        compare_paired([1, 2], [1], binary=False, higher_is_better=True)


@given(pairs=value_pairs, clusters=st.none() | st.lists(st.integers(0, 4), min_size=25))
def test_nothing_is_nan_and_the_roles_mirror(
    pairs: list[tuple[float, float]], clusters: list[int] | None
) -> None:
    labels = clusters and clusters[: len(pairs)]
    found = of_pairs(pairs, clusters=labels)
    assert not any(isinstance(value, float) and math.isnan(value) for value in astuple(found))
    assert found.wins + found.losses + found.ties == found.n_pairs == len(pairs)
    mirrored = of_pairs([(second, first) for first, second in pairs], clusters=labels)
    assert (mirrored.wins, mirrored.losses) == (found.losses, found.wins)
    assert (mirrored.p_value, mirrored.permutation_p) == (found.p_value, found.permutation_p)
    if found.low is not None:
        assert found.difference is not None
        assert found.high is not None
        assert found.low < found.difference < found.high
        assert (mirrored.low, mirrored.high) == (-found.high, -found.low)


# Holm


def rejected(p_values: Sequence[float], level: float) -> set[int]:
    """Holm's procedure as he gives it: reject from the smallest on, until one fails."""
    chosen: set[int] = set()
    for left, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] * (len(p_values) - left) > level:
            break
        chosen.add(place)
    return chosen


@given(
    p_values=st.lists(st.integers(0, 1000).map(lambda value: value / 1000), max_size=12),
    level=st.integers(1, 999).map(lambda value: value / 1000 + 0.0003),
)
def test_holm_rejects_as_the_procedure_does(p_values: list[float], level: float) -> None:
    adjusted = holm(p_values)
    assert {place for place, p in enumerate(adjusted) if p is not None and p <= level} == rejected(
        p_values, level
    )


def test_holm_keeps_nulls() -> None:
    assert holm([]) == []
    assert holm([None, None]) == [None, None]
    assert holm([0.2, None, 0.6]) == [0.4, None, 0.6]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
