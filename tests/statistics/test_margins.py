"""Non-inferiority of paired shares: Tango's score test against its definition, and its errors."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from calipers.comparisons.compare_result import Margin, MetricComparison
from calipers.statistics.paired import compare_paired
from calipers.statistics.paired_tests import tango

NORMAL = 1.959964


def by_definition(higher: int, lower: int, n: int, mark: float) -> float:
    """The likelihood under a difference `mark`, maximised numerically (Tango 1998)."""
    same = n - higher - lower

    def minus_likelihood(down: float) -> float:
        parts = ((higher, down + mark), (lower, down), (same, 1 - 2 * down - mark))
        return -sum(count * math.log(max(share, 1e-300)) for count, share in parts if count)

    least, most = max(0.0, -mark), (1 - mark) / 2
    found = optimize.minimize_scalar(
        minus_likelihood, bounds=(least, most), method="bounded", options={"xatol": 1e-12}
    )
    variance = n * (2 * found.x + mark - mark**2)
    return float((higher - lower - n * mark) / math.sqrt(variance))


@pytest.mark.parametrize("counts", [(6, 16, 161), (0, 2, 30), (5, 1, 20), (1, 0, 8), (20, 20, 90)])
@pytest.mark.parametrize("mark", [-0.2, -0.05, 0.1])
def test_tango_is_what_its_author_says(counts: tuple[int, int, int], mark: float) -> None:
    assert tango(*counts, mark) == pytest.approx(by_definition(*counts, mark), rel=1e-4, abs=1e-4)


def says_yes(higher: int, lower: int, n: int, margin: float) -> bool:
    base = [1.0] * lower + [0.0] * higher + [1.0] * (n - higher - lower)
    candidate = [0.0] * lower + [1.0] * higher + [1.0] * (n - higher - lower)
    found = compare_paired(base, candidate, binary=True, higher_is_better=True, resamples=1)
    measured = MetricComparison(
        base=0.0,
        candidate=0.0,
        difference=found.difference,
        low=found.low,
        high=found.high,
        test=found.test,
        wins=found.wins,
        losses=found.losses,
        n_pairs=found.n_pairs,
    )
    return Margin.of(margin, measured, "higher", 0.95).noninferior == "yes"


@pytest.mark.parametrize(
    ("n", "margin", "better"), [(40, 0.1, 0.0), (60, 0.05, 0.002), (20, 0.15, 0.03)]
)
def test_a_loss_as_large_as_the_margin_is_rarely_called_not_worse(
    n: int, margin: float, better: float
) -> None:
    """The exact probability over all tables: at most 2.7 %; the interval alone errs in up to 5.9 %."""
    worse, falsely = margin + better, 0.0
    for lower in range(n + 1):
        of_lower = float(stats.binom.pmf(lower, n, worse))
        if of_lower < 1e-9:
            continue
        for higher in range(n - lower + 1):
            chance = of_lower * float(stats.binom.pmf(higher, n - lower, better / (1 - worse)))
            if chance > 1e-9 and says_yes(higher, lower, n, margin):
                falsely += chance
    assert falsely <= 0.027
