"""Guaranteed intervals: against their definition, and where intervals by spread fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import calipers as cal
from calipers.statistics.guarantee import guarantee_mean, guarantee_p
from tests.examples import examples

ENDS = (0.0, 1.0)


def capital(values: list[float], mark: float) -> float:
    """The mean, over what is staked, of the product of what each value wins."""
    parts = [(k / 20.2) ** 2 for k in range(1, 21)]
    found = [np.prod([1 + part * (value / mark - 1) for value in values]) for part in parts]
    return float(np.mean(found))


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=30))
@examples(60)
def test_bounds_are_where_the_capital_reaches_what_chance_allows(values: list[float]) -> None:
    numbers = np.array(values)
    found = guarantee_mean(numbers, ends=ENDS, confidence=0.9)
    assert 0 <= found.low <= numbers.mean() + 1e-9
    assert numbers.mean() - 1e-9 <= found.high <= 1
    if found.low > 1e-6:
        assert capital(values, found.low * (1 - 1e-6)) >= 20 * (1 - 1e-3)
    if found.low + 1e-6 < numbers.mean():
        assert capital(values, found.low + 1e-6) < 20 * (1 + 1e-3)
    mark = min(1.0, max(0.0, found.low * 0.9))
    if mark > 0:
        assert guarantee_p(numbers, ends=ENDS, mark=mark) <= 0.1 + 1e-9


@pytest.mark.parametrize("n", [3, 8, 20, 60])
def test_a_rare_collapse_is_not_missed(n: int) -> None:
    """A tenth at .08, the others at .88: by their spread, 45 % of verdicts are wrong at n = 8."""
    rng = np.random.default_rng(n)
    missed = 0
    for _ in range(400):
        values = np.where(rng.random(n) < 0.1, 0.08, 0.88)
        found = guarantee_mean(values, ends=ENDS, confidence=0.95)
        missed += not found.low <= 0.8 <= found.high
    assert missed <= 0.035 * 400


def _rows(values: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"Aufgabe {n}", "impl_rate": float(v), **more} for n, v in enumerate(values)]


def test_scores_and_differences_of_bounded_values() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {**row, "correct": bool(rng.random() < 0.7), "latency_ms": 5.0 + n}
        for n, row in enumerate(_rows(rng.beta(5, 2, 40)))
    ]
    score = cal.score(rows, guarantee=True)
    right = sum(row["correct"] for row in rows)
    exact = stats.binomtest(right, 40).proportion_ci(method="exact")
    accuracy = score["accuracy"]
    assert (accuracy.low, accuracy.high) == pytest.approx((exact.low, exact.high))
    assert accuracy.interval == "Clopper-Pearson"
    assert score["impl_rate"].interval == "bets"
    latency = score["latency_mean_ms"]
    assert (latency.low, latency.high) == (None, None)
    assert "without an end" in (latency.interval_reason or "")
    other = _rows([row["impl_rate"] * 0.3 for row in rows])
    compared = cal.compare(rows, other, metrics=["impl_rate"], guarantee=True)
    found = compared.pairs[0].metrics["impl_rate"]
    assert found.test == found.interval == "bets"
    assert found.high is not None
    assert found.p_value is not None
    assert (found.p_value < 0.05) == (found.high < 0)
    plain = cal.compare(rows, other, metrics=["impl_rate"]).pairs[0].metrics["impl_rate"]
    assert plain.low is not None
    assert found.low is not None
    assert found.low < plain.low


def test_a_policy_may_ask_for_a_guarantee() -> None:
    steady = _rows(np.full(10, 0.93))
    policy = {"thresholds": {"blocking": {"impl_rate": "≥ 80%"}}}
    sure = cal.gate(steady, policy={**policy, "evidence": "guarantee"}).checks[0]
    assert sure.verdict == "inconclusive"  # one in ten may collapse, and ten did not show it
    assert sure.low is not None
    assert sure.low < 0.8
    many = cal.gate(_rows(np.full(60, 0.93)), policy={**policy, "evidence": "guarantee"})
    assert many.checks[0].verdict == "pass"
