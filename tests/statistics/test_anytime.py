"""Tests that hold however often one looks: against the paper's formula, by counting, by chance."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import inf, isclose, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.statistics.sequential import _FRACTIONS, Bets, mean_bounds

shares = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
populations = st.lists(shares, min_size=1, max_size=40)


def capitals(values: list[float], mark: float, total: int | None) -> list[float]:
    """Waudby-Smith & Ramdas 2023: Π (1 + λ_t (x_t − m_t)), λ_t = f / m_t, averaged over f."""
    found = []
    for count in range(1, len(values) + 1):
        of_fraction = []
        for fraction in _FRACTIONS:
            factors = []
            for at, value in enumerate(values[:count]):
                left = mark
                if total is not None:
                    left = (total * mark - sum(values[:at])) / (total - at)
                bet = fraction / left if left > 0 else inf
                factors.append(1 + bet * (value - left) if bet != inf else (1, inf)[value > 0])
            of_fraction.append(prod(factors))
        found.append(sum(of_fraction) / len(of_fraction))
    return found


@given(values=st.lists(shares, min_size=1, max_size=12), mark=st.sampled_from([0.2, 0.5, 0.77]))
@pytest.mark.parametrize("endless", [True, False])
def test_capital_is_the_papers(*, endless: bool, values: list[float], mark: float) -> None:
    total = None if endless else 2 * len(values) + 30
    expected = capitals(values, mark, total)
    for alpha in (0.5, 0.2, 0.05):
        if any(isclose(alpha * each, 1, rel_tol=1e-6) for each in expected):
            continue
        after = next((at for at, each in enumerate(expected, 1) if each >= 1 / alpha), None)
        assert Bets(mark=mark, alpha=alpha, total=total).place(values).won_after == after


@pytest.mark.parametrize(
    "population",
    [
        [0.2, 0.9, 1, 0.5, 0.4, 1],
        pytest.param([0, 1, 1, 1, 0, 1, 1], marks=pytest.mark.long),
        pytest.param([0, 0, 0, 0, 1, 0.1, 0], marks=pytest.mark.long),
    ],
)
def test_a_fair_game_over_all_orders(population: list[float]) -> None:
    """Against the true mean nobody makes money on average, and few ever grow rich."""
    orders = list(permutations(population))
    mean = sum(population) / len(population)
    for side in (False, True):
        mark = 1 - mean if side else mean
        worth, rich = np.zeros(len(population) - 1), 0
        for order in orders:
            values = [1 - each if side else each for each in order]
            bets = Bets(mark=mark, alpha=0.3, total=len(population))
            for at, value in enumerate(values[:-1]):
                bets = bets.place([value])
                worth[at] += np.exp(bets.capital).mean() / len(orders)
            rich += bets.won_after is not None
        assert np.all(worth <= 1 + 1e-9)
        assert worth[:2] == pytest.approx(1)  # while something is left to bet on, quite fair
        assert rich / len(orders) <= 0.3


@given(values=populations)
def test_with_the_last_value_all_is_known(values: list[float]) -> None:
    mean = sum(values) / len(values)
    bounds = mean_bounds(values, total=len(values), alpha=0.05)
    assert bounds == pytest.approx((mean, mean), abs=1e-9)


@given(values=populations, more=st.integers(0, 30))
def test_further_values_never_take_back(values: list[float], more: int) -> None:
    for total in (None, len(values) + more):
        bounds = [
            mean_bounds(values[:count], total=total, alpha=0.1) for count in range(len(values) + 1)
        ]
        for before, after in pairwise(bounds):
            assert before.low <= after.low + 1e-6
            assert before.high >= after.high - 1e-6


@given(values=populations, mark=st.sampled_from([0.3, 0.5, 0.8]), more=st.integers(0, 60))
def test_a_bet_is_won_where_the_bounds_leave_the_mark_out(
    values: list[float], mark: float, more: int
) -> None:
    for total in (None, len(values) + more):
        low, high = mean_bounds(values, total=total, alpha=0.1)
        above = Bets(mark=mark, alpha=0.05, total=total).place(values)
        if above.won_after is not None:
            assert low > mark - 1e-6
        elif total is None:
            assert low < mark + 1e-6
        below = Bets(mark=1 - mark, alpha=0.05, total=total).place([1 - each for each in values])
        if below.won_after is not None:
            assert high < mark + 1e-6


@given(values=populations, cut=st.integers(0, 40))
def test_values_may_come_in_parts(values: list[float], cut: int) -> None:
    start = Bets(mark=0.4, alpha=0.1, total=len(values) + 5)
    whole = start.place(values)
    parts = start.place(values[:cut]).place(values[cut:])
    assert (parts.seen, parts.won_after) == (whole.seen, whole.won_after)
    assert parts.capital == pytest.approx(whole.capital)


@given(values=st.lists(shares, min_size=1, max_size=20))
def test_what_is_not_known_widens_the_bounds(values: list[float]) -> None:
    total = len(values) + 10
    known = mean_bounds(values, total=total, alpha=0.05)
    unsure = mean_bounds([0.0, *values[1:]], [1.0, *values[1:]], total=total, alpha=0.05)
    assert unsure.low <= known.low + 1e-6
    assert unsure.high >= known.high - 1e-6


def test_nothing_seen_says_nothing() -> None:
    assert mean_bounds([], total=10, alpha=0.05) == (0, 1)
    assert mean_bounds([], total=None, alpha=0.05) == (0, 1)


def test_all_right_is_soon_enough() -> None:
    """Against 90 %, by endless draws: who knew that all are right would win with the 36th."""
    after = Bets(mark=0.9, alpha=0.025).place([1] * 100).won_after
    assert after is not None
    assert 36 <= after <= 60


@pytest.mark.long
@pytest.mark.parametrize("endless", [True, False])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_wrong_at_any_look_at_most_as_often_as_said(share: float, *, endless: bool) -> None:
    """The mean is just at the mark: both sides together are left in at most alpha of the runs."""
    rng = np.random.default_rng(7)
    runs, size, alpha = 4000, 400, 0.1
    wrong = 0
    for _ in range(runs):
        ones = round(size * share)
        values = np.where(np.arange(size) < ones, 1.0, 0.0)
        values = (rng.random(size) < share).astype(float) if endless else rng.permutation(values)
        total = None if endless else size
        above = Bets(mark=share, alpha=alpha / 2, total=total).place(values)
        below = Bets(mark=1 - share, alpha=alpha / 2, total=total).place(1 - values)
        wrong += above.won_after is not None or below.won_after is not None
    assert wrong / runs <= alpha + 2 * np.sqrt(alpha * (1 - alpha) / runs)
