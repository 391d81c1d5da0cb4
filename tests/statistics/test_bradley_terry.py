"""Bradley-Terry against plain Python: the maximum by another algorithm, errors by simulation."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from calipers.statistics.ranking import Comparisons, fit_strengths


def strengths_by_minorization(met: list[tuple[int, int, float]], systems: int) -> list[float]:
    """Hunter (2004), Ann. Statist. 32, 384: another way to the same maximum."""
    wins = [0.0] * systems
    played = [[0.0] * systems for _ in range(systems)]
    for first, second, result in met:
        wins[first] += result
        wins[second] += 1 - result
        played[first][second] += 1
        played[second][first] += 1
    worth = [1.0] * systems
    for _ in range(5_000):
        worth = [
            wins[i]
            / sum(played[i][j] / (worth[i] + worth[j]) for j in range(systems) if played[i][j])
            for i in range(systems)
        ]
        size = math.exp(sum(map(math.log, worth)) / systems)
        worth = [each / size for each in worth]
    return [math.log(each) for each in worth]


def drawn(seed: int, systems: int, count: int) -> list[tuple[int, int, float]]:
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        first, second = chance.sample(range(systems), 2)
        found.append((first, second, chance.choice((0.0, 0.5, 1.0, 1.0 * (first < second)))))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_maximum_is_that_of_another_algorithm(seed: int) -> None:
    met = drawn(seed, 5, 80)
    found = fit_strengths(Comparisons(*zip(*met, strict=True)), 5)
    assert not found.ties_added
    assert found.values == pytest.approx(strengths_by_minorization(met, 5), abs=1e-8)
    assert found.values.sum() == pytest.approx(0, abs=1e-12)


def test_two_systems_have_the_log_odds() -> None:
    met = Comparisons([0] * 50, [1] * 50, [1.0] * 35 + [0.0] * 15)
    found = fit_strengths(met, 2)
    assert found.values[0] - found.values[1] == pytest.approx(math.log(35 / 15))
    variance = found.covariance[0, 0] + found.covariance[1, 1] - 2 * found.covariance[0, 1]
    assert variance == pytest.approx((1 / 35 + 1 / 15) * 50 / 49)  # as a logistic regression has it
    assert found.win_rates.tolist() == [0.7, 0.3]


def test_comparisons_of_one_task_count_once() -> None:
    """The same judgment ten times over is one judgment."""
    once = drawn(3, 4, 60)
    ten = [each for each in once for _ in range(10)]
    tasks = [number for number in range(60) for _ in range(10)]
    alone = fit_strengths(Comparisons(*zip(*once, strict=True)), 4)
    first, second, result = zip(*ten, strict=True)
    again = fit_strengths(Comparisons(first, second, result, tasks), 4)
    assert again.values == pytest.approx(alone.values)
    assert again.covariance == pytest.approx(alone.covariance)
    assert again.clusters == alone.clusters == 60


def test_a_system_that_always_wins_is_finite_and_unsure() -> None:
    met = Comparisons([0] * 20 + [1] * 20, [1] * 20 + [2] * 20, [1.0] * 20 + [1.0, 0.0] * 10)
    found = fit_strengths(met, 3)
    assert found.ties_added
    assert np.isfinite(found.values).all()
    assert found.values[0] == max(found.values)
    assert found.covariance[0, 0] > found.covariance[1, 1]


def test_systems_that_never_met() -> None:
    with pytest.raises(ValueError, match="no chain"):
        fit_strengths(Comparisons([0, 2], [1, 3], [1.0, 0.0]), 4)


def test_choix_finds_the_same_strengths() -> None:
    choix = pytest.importorskip("choix", reason="choix is not installed")
    met = [each for each in drawn(1, 6, 400) if each[2] != 0.5]
    found = fit_strengths(Comparisons(*zip(*met, strict=True)), 6)
    pairs = [(first, second) if won else (second, first) for first, second, won in met]
    theirs = choix.opt_pairwise(6, pairs, alpha=0)
    assert found.values == pytest.approx(theirs - theirs.mean(), abs=1e-5)


def test_statsmodels_finds_the_same_strengths_and_errors() -> None:
    """A logistic regression on who met whom, with errors that hold whatever the variance is."""
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    met = [each for each in drawn(2, 5, 300) if each[2] != 0.5]
    design = np.zeros((len(met), 5))
    for row, (first, second, _) in zip(design, met, strict=True):
        row[[first, second]] = 1, -1
    fitted = api.Logit([won for _, _, won in met], design[:, 1:]).fit(disp=0, cov_type="HC0")
    found = fit_strengths(Comparisons(*zip(*met, strict=True)), 5)
    own, of_first = np.diag(found.covariance)[1:], found.covariance[0]
    squares = (own + of_first[0] - 2 * of_first[1:]) * (len(met) - 1) / len(met)
    assert found.values[1:] - found.values[0] == pytest.approx(fitted.params, abs=1e-9)
    assert np.sqrt(squares) == pytest.approx(fitted.bse, abs=1e-9)
