"""The bootstrap by weights: multinomial draws, BCa against scipy, coverage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from calipers.statistics import bootstrap as module
from calipers.statistics.bootstrap import bca, count_blocks, draw_block, draw_weights

Floats = NDArray[np.float64]


def drawn(clusters: int, resamples: int, seed: Any = 0) -> Floats:
    return np.concatenate(list(draw_weights(clusters, resamples, seed)))


# Weights


@given(clusters=st.integers(1, 60), resamples=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_a_resample_draws_as_many_clusters_as_there_are(
    clusters: int, resamples: int, seed: int
) -> None:
    found = drawn(clusters, resamples, seed)
    assert found.shape == (resamples, clusters)
    assert (found >= 0).all()
    assert (found == np.round(found)).all()
    assert (found.sum(axis=1) == clusters).all()


def test_weights_are_multinomial() -> None:
    """Each is binomial(C, 1/C), and two of one resample have the covariance −1/C."""
    clusters, resamples = 12, 40_000
    found = drawn(clusters, resamples, 5)
    for column in found.T:
        observed = np.bincount(column.astype(int), minlength=5)
        expected = stats.binom.pmf(np.arange(4), clusters, 1 / clusters) * resamples
        tail = resamples - expected.sum()
        counts = np.append(observed[:4], observed[4:].sum())
        assert stats.chisquare(counts, [*expected, tail]).pvalue > 1e-5
    covariance = np.cov(found.T)
    wanted = np.eye(clusters) - 1 / clusters
    assert np.abs(covariance - wanted).max() < 6 / math.sqrt(resamples)


def test_weights_depend_on_the_seed_alone() -> None:
    assert np.array_equal(drawn(30, 50, 7), drawn(30, 50, 7))
    assert np.array_equal(drawn(30, 50, (7, 1)), drawn(30, 50, [7, 1]))
    assert not np.array_equal(drawn(30, 50, 7), drawn(30, 50, 8))
    assert not np.array_equal(drawn(30, 50, (7, 1)), drawn(30, 50, (7, 2)))


def test_seeds_are_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy 2.5 refuses nested ones, which earlier versions flattened: the same numbers."""
    seen: list[list[int]] = []
    make = np.random.default_rng

    def note_seed(seed: list[int]) -> np.random.Generator:
        seen.append(seed)
        return make(seed)

    monkeypatch.setattr(np.random, "default_rng", note_seed)
    drawn(5, 2, (7, 1))
    drawn(5, 2, 7)
    assert seen == [[7, 1, 0], [7, 0]]


@given(few=st.integers(1, 30), more=st.integers(0, 30), cells=st.sampled_from([1, 90, 1 << 22]))
def test_more_resamples_begin_with_the_fewer(few: int, more: int, cells: int) -> None:
    """Whatever the size of a block: it fixes which generator draws a resample, nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CELLS", cells)
        assert np.array_equal(drawn(9, few), drawn(9, few + more)[:few])


def test_blocks_are_drawn_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CELLS", 64)
    count = count_blocks(10, 33)
    assert count == 6
    backwards = [draw_block(10, 33, 1, number) for number in reversed(range(count))]
    assert [len(each) for each in backwards] == [3, 6, 6, 6, 6, 6]
    assert np.array_equal(np.concatenate(backwards[::-1]), drawn(10, 33, 1))
    first, second = backwards[-1], backwards[-2]
    assert not np.array_equal(first, second), "each block has a generator of its own"


# BCa


def resampled_mean(values: Floats, resamples: int, seed: int = 0) -> Floats:
    return drawn(values.size, resamples, seed) @ values / values.size


def expanded(confidence: float, clusters: int) -> float:
    """The confidence at which plain BCa reaches as far as ours, by Student's t of so many."""
    t = stats.t.ppf((1 + confidence) / 2, clusters - 1) * math.sqrt(clusters / (clusters - 1))
    return float(2 * stats.norm.cdf(t) - 1)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_mean_as_scipy_has_it(confidence: float) -> None:
    values = np.random.default_rng(3).exponential(size=40)
    resamples = 40_000
    mean = float(values.mean())
    found = bca(mean, resampled_mean(values, resamples), values - mean, confidence)
    expected = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        confidence_level=expanded(confidence, 40),
        method="BCa",
        rng=1,
    )
    assert found is not None
    tolerance = 0.1 * float(expected.standard_error)  # both are drawn: ± 0.02 each at these tails
    assert found.stderr == pytest.approx(expected.standard_error, rel=0.03)
    assert found.low == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert found.high == pytest.approx(expected.confidence_interval.high, abs=tolerance)
    upper = (1 + expanded(confidence, 40)) / 2
    percentile = np.quantile(resampled_mean(values, resamples), upper)
    assert (found.high or 0) > percentile + tolerance, "the skewness is in it"


def test_a_ratio_as_scipy_has_it() -> None:
    rng = np.random.default_rng(4)
    below = rng.gamma(2, size=50)
    above = below * rng.lognormal(sigma=0.8, size=50)
    ratio = float(above.sum() / below.sum())
    draws = drawn(50, 40_000, 2)
    found = bca(ratio, (draws @ above) / (draws @ below), above - ratio * below, 0.95)
    expected = stats.bootstrap(
        (above, below),
        lambda x, y, axis: x.sum(axis=axis) / y.sum(axis=axis),
        paired=True,
        n_resamples=40_000,
        confidence_level=expanded(0.95, 50),
        method="BCa",
        rng=2,
    )
    assert found is not None
    # scipy's acceleration is the jackknife's, ours that of the influences: equal as 1/n is small.
    tolerance = 0.12 * float(expected.standard_error)
    assert found.low == pytest.approx(expected.confidence_interval.low, abs=tolerance)
    assert found.high == pytest.approx(expected.confidence_interval.high, abs=tolerance)


def test_one_minus_a_share_has_the_mirrored_interval() -> None:
    values = (np.arange(80) < 7).astype(float)
    found = bca(7 / 80, resampled_mean(values, 20_000), values - 7 / 80, 0.95)
    turned = bca(73 / 80, 1 - resampled_mean(values, 20_000), 7 / 80 - values, 0.95)
    assert found is not None
    assert turned is not None
    assert (1 - (turned.high or 0), 1 - (turned.low or 0)) == pytest.approx((found.low, found.high))


def test_rounding_does_not_decide_on_which_side_a_resample_is() -> None:
    """Many resamples equal the value but for the order in which numbers were added up."""
    values = np.where(np.arange(30) < 2, 0.3, 0.1)
    draws = resampled_mean(values, 20_000)
    exact = bca(np.round(values.mean(), 9), np.round(draws, 9), values - values.mean(), 0.95)
    for noise in (-1e-16, 1e-16):
        noisy = bca(values.mean(), draws + noise, values - values.mean(), 0.95)
        assert noisy is not None
        assert exact is not None
        assert (noisy.low, noisy.high) == pytest.approx((exact.low, exact.high))


# Edges


def test_what_resampling_cannot_say() -> None:
    many = np.random.default_rng(0).normal(size=100)
    assert bca(1.0, np.full(100, 1.0), np.ones(9), 0.95) is None, "constant"
    assert bca(0.1, 0.1 + np.spacing(0.1) * np.arange(9), np.ones(9), 0.95) is None, (
        "but for rounding"
    )
    assert bca(0.0, np.zeros(9), np.zeros(9), 0.95) is None
    assert bca(0.0, many, np.ones(1), 0.95) is None, "one cluster"
    assert bca(0.0, many[:1], np.ones(9), 0.95) is None, "one resample"
    assert bca(0.0, np.full(9, math.nan), np.ones(9), 0.95) is None, "no resample has a value"


def test_resamples_without_a_value_are_left_out() -> None:
    draws = np.random.default_rng(0).normal(size=4000)
    influences = np.random.default_rng(1).normal(size=30)
    holes = np.insert(draws, range(0, 4000, 100), math.nan)
    assert bca(0.0, holes, influences, 0.95) == bca(0.0, draws, influences, 0.95)


@pytest.mark.parametrize("side", [1, -1])
def test_all_resamples_on_one_side(side: int) -> None:
    """The basic interval, reflected at the value: entropies of many answers fall in resamples."""
    draws = side * np.random.default_rng(0).uniform(1, 2, size=10_000)
    found = bca(0.0, draws, np.ones(9), 0.9)
    assert found is not None
    ends = sorted((0.0, -side * (1 + (1 + expanded(0.9, 9)) / 2)))
    assert (found.low, found.high) == pytest.approx(ends, abs=0.01)


def test_without_influences_the_bias_alone_is_corrected() -> None:
    draws = np.random.default_rng(0).normal(0.2, 1, size=100_000)
    found = bca(0.0, draws, np.zeros(9), 0.95)
    assert found is not None
    bias = stats.norm.ppf(stats.norm.cdf(-0.2))
    reach = stats.norm.ppf((1 + expanded(0.95, 9)) / 2)
    ends = 0.2 + 2 * bias + np.array([-reach, reach])
    assert (found.low, found.high) == pytest.approx(tuple(ends), abs=0.05)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99999, 1 - 1e-12])
@pytest.mark.parametrize("outlier", [1.0, -1.0])
def test_the_bounds_keep_their_order(confidence: float, outlier: float) -> None:
    """One cluster that outweighs all others, and more confidence than resamples can tell."""
    influences = np.zeros(20)
    influences[0] = outlier
    draws = outlier * np.random.default_rng(0).poisson(1, size=5000).astype(float)
    found = bca(outlier * 0.99, draws, influences, confidence)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert draws.min() <= found.low <= outlier * 0.99 <= found.high <= draws.max()


def test_numbers_too_large_to_be_squared() -> None:
    draws = 1e300 * np.random.default_rng(0).normal(10, 1, size=2000)
    small = bca(1e1, draws / 1e300, np.arange(9.0), 0.95)
    found = bca(1e301, draws, 1e300 * np.arange(9.0), 0.95)
    assert found is not None
    assert small is not None
    assert found.stderr == pytest.approx(1e300 * (small.stderr or 0))
    assert found.low == pytest.approx(1e300 * (small.low or 0))


# Coverage


def coverage(draw: Callable[[], Floats], truth: float, datasets: int = 1000) -> float:
    covered = 0
    for number in range(datasets):
        values = draw()
        mean = float(values.mean())
        found = bca(mean, resampled_mean(values, 1000, number), values - mean, 0.95)
        if found is not None:
            assert found.low is not None
            assert found.high is not None
            covered += found.low <= truth <= found.high
    return covered / datasets


@pytest.mark.long
def test_a_skewed_mean_is_covered() -> None:
    rng = np.random.default_rng(1)
    assert 0.93 <= coverage(lambda: rng.exponential(size=80), 1.0) <= 0.97


@pytest.mark.long
def test_a_heavy_tailed_mean_is_mostly_covered() -> None:
    rng = np.random.default_rng(2)
    assert 0.9 <= coverage(lambda: rng.lognormal(sigma=1, size=80), math.exp(0.5)) <= 0.97


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_accuracy_is_covered(share: float) -> None:
    rng = np.random.default_rng(3)
    found = coverage(lambda: (rng.random(100) < share).astype(float), share)
    assert 0.93 <= found <= 0.97


@pytest.mark.parametrize(("clusters", "resamples"), [(1, 5), (30, 70), (9_000, 30), (70_000, 61)])
def test_a_block_counts_what_its_generator_draws(clusters: int, resamples: int) -> None:
    """However the counting is cut into pieces, each resample has its own draws."""
    block = draw_block(clusters, resamples, (7, 1), 0)
    draws = np.random.default_rng([7, 1, 0]).integers(0, clusters, size=block.shape)
    expected = [np.bincount(row, minlength=clusters) for row in draws]
    assert (block == expected).all()
    assert block.T.flags.c_contiguous, "sums over clusters want them so"
