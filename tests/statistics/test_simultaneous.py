"""Several intervals at once: against Šidák's and Tukey's own levels, and p-values that agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calipers.statistics.ranking import MaxT, pair_deviations

LEVELS = (0.8, 0.9, 0.95, 0.99)


def reach(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("count", [2, 5, 20])
def test_independent_estimates_have_the_level_of_sidak(count: int, confidence: float) -> None:
    found = MaxT.of_each(np.diag(np.arange(1.0, count + 1)), seed=1).level(confidence)
    assert reach(found) == pytest.approx(reach(confidence ** (1 / count)), abs=0.06)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("count", [3, 5, 20])
def test_pairs_of_independent_estimates_have_the_level_of_tukey(
    count: int, confidence: float
) -> None:
    found = MaxT.of_pairs(np.eye(count), seed=1).level(confidence)
    tukey = stats.studentized_range.ppf(confidence, count, np.inf) / np.sqrt(2)
    assert reach(found) == pytest.approx(tukey, abs=0.06)


def test_estimates_that_always_agree_need_no_adjustment() -> None:
    found = MaxT.of_each(np.ones((6, 6)), seed=0)
    assert found.level(0.95) == pytest.approx(0.95, abs=0.004)
    assert found.adjust(0.03) == pytest.approx(0.03, abs=0.004)


@pytest.mark.parametrize("seed", range(4))
def test_a_p_value_is_below_where_its_level_rejects(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(30, 6))
    found = MaxT.of_pairs(np.cov(values, rowvar=False), seed=seed)
    for confidence in LEVELS:
        single = 1 - found.level(confidence)
        for p_value in (single * 0.999, single * 1.001, *rng.random(50) ** 4):
            assert (found.adjust(p_value) < 1 - confidence) == (p_value < single)


def test_one_test_is_left_as_it_is() -> None:
    found = MaxT.of_pairs(np.eye(2), seed=0)
    assert (found.tests, found.level(0.95), found.adjust(0.01)) == (1, 0.95, 0.01)


def test_a_p_value_beyond_all_draws_is_bonferronis() -> None:
    found = MaxT.of_pairs(np.eye(5), seed=0)
    assert found.adjust(1e-30) == pytest.approx(1e-29)
    assert found.adjust(0.0) == 0.0


def test_estimates_that_do_not_vary() -> None:
    """They count as independent ones: too careful, never too sure."""
    covariance = np.diag([1.0, 0.0, 0.0])
    assert pair_deviations(covariance)[1, 2] == 0
    each, pairs = MaxT.of_each(covariance, seed=0), MaxT.of_pairs(covariance, seed=0)
    assert reach(each.level(0.95)) == pytest.approx(reach(0.95 ** (1 / 3)), abs=0.06)
    assert 0.95 < pairs.level(0.95) < 0.999
    assert 0.95 < MaxT.of_each(np.zeros((3, 3)), seed=0).level(0.95) < 0.999


def test_the_same_seed_gives_the_same_draws() -> None:
    one, again, other = (MaxT.of_pairs(np.eye(4), seed=seed) for seed in (3, 3, 4))
    assert (one.largest == again.largest).all()
    assert (one.largest != other.largest).any()
