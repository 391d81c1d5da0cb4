"""Of data whose true agreement is known, how many intervals hold it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from calipers.statistics.agreement import kendall
from calipers.statistics.clusters import Floats
from tests.statistics.rated import ALPHAS, EVERY, OF_PAIRS, Measure, measured


def panel(
    rng: np.random.Generator, n: int, raters: int, labels: list[float], skill: float
) -> Floats:
    """Raters who know the truth with a probability of `skill`, and else draw from `labels`."""
    shape = (n, raters)
    truth = rng.choice(len(labels), (n, 1), p=labels)
    guesses = rng.choice(len(labels), shape, p=labels)
    return np.where(rng.random(shape) < skill, truth, guesses).astype(float)


def two_judges(rng: np.random.Generator, n: int, scale: str, rho: float) -> Floats:
    """Two correlated judges: numbers, numbers with heavy tails, or marks from 1 to 5."""
    numbers = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)
    if scale == "heavy":
        return numbers * np.sqrt(5 / rng.chisquare(5, (n, 1)))
    if scale == "marks":
        return np.digitize(numbers, [-1.2, -0.4, 0.4, 1.2]).astype(np.float64)
    return numbers


def coverage(
    measure: Measure, draw: Callable[[np.random.Generator, int], Floats], n: int, sets: int
) -> float:
    rng = np.random.default_rng(7)
    true = measured(measure, draw(rng, 200_000)).value
    assert true is not None
    hits = tries = 0
    for _ in range(sets):
        found = measured(measure, draw(rng, n))
        if found.low is not None and found.high is not None:
            tries += 1
            hits += found.low <= true <= found.high
    assert tries > 0.9 * sets
    return hits / tries


EVEN, SKEWED = [0.1, 0.2, 0.4, 0.2, 0.1], [0.85, 0.15]


@pytest.mark.parametrize(
    ("name", "labels", "skill"),
    [
        ("cohen", EVEN, 0.8),
        ("weighted", EVEN, 0.8),
        ("fleiss", EVEN, 0.8),
        ("nominal", SKEWED, 0),
        ("interval", EVEN, 0.5),
    ],
)
def test_coverage_of_panels_at_a_glance(name: str, labels: list[float], skill: float) -> None:
    raters = 2 if name in OF_PAIRS else 3
    draw = partial(panel, raters=raters, labels=labels, skill=skill)
    assert coverage(EVERY[name], draw, n=60, sets=300) > 0.91


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_coverage_of_marks_at_a_glance(name: str) -> None:
    draw = partial(two_judges, scale="marks", rho=0.5)
    assert coverage(EVERY[name], draw, n=60, sets=300) > 0.91


@pytest.mark.long
@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("skill", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("labels", [EVEN, SKEWED], ids=["five labels", "a rare label"])
@pytest.mark.parametrize("name", ["percent", "cohen", "mean kappa", "fleiss", *ALPHAS])
def test_coverage_of_panels(name: str, labels: list[float], skill: float, n: int) -> None:
    raters = 2 if name in OF_PAIRS and name != "percent" else 3
    draw = partial(panel, raters=raters, labels=labels, skill=skill)
    least = 0.85 if labels is SKEWED and n == 50 else 0.915  # 7 units with the rare label
    assert least < coverage(EVERY[name], draw, n=n, sets=1500)


@pytest.mark.long
@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("scale", ["normal", "heavy", "marks"])
@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_coverage_of_correlations(name: str, scale: str, rho: float, n: int) -> None:
    draw = partial(two_judges, scale=scale, rho=rho)
    least = 0.87 if scale == "heavy" and name == "pearson" else 0.925
    assert least < coverage(EVERY[name], draw, n=n, sets=1500)


@pytest.mark.long
def test_the_textbooks_alone_would_not_cover_marks() -> None:
    """Why there are two errors: Bonett and Wright's tau has no ties, a judge's marks have many."""
    rng = np.random.default_rng(1)
    true = measured(kendall, two_judges(rng, 200_000, "marks", 0.9)).value
    assert true is not None
    hits = 0
    for _ in range(1000):
        found = measured(kendall, two_judges(rng, 100, "marks", 0.9)).value
        assert found is not None
        reach = 1.96 * math.sqrt(0.437 / 96)
        hits += abs(math.atanh(found) - math.atanh(true)) < reach
    assert hits / 1000 < 0.9
