"""Verdicts on evidence: what a value and its interval allow to say, and how often that is wrong."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from calipers.gates.policy_fields import find_metric
from calipers.gates.threshold_test import (
    MeasuredValue,
    Verdict,
    count_further,
    explain_verdict,
    format_value,
    is_thin,
    judge_value,
    widen_bounds,
)
from calipers.metrics.thresholds import Scale, Threshold, parse_threshold, read_scale
from calipers.statistics.intervals import bounded_interval, exact_share, wilson

RATE = Scale(name="pass_rate", unit=None, range=(0, 1), better="higher")
LATENCY = Scale(name="latency_p95_ms", unit="ms", range=(0, inf), better="lower")
RUNS = 10_000


def share(passed: int, n: int, confidence: float = 0.95) -> MeasuredValue:
    value = passed / n
    around = wilson(value, n, value * (1 - value) / n, n, confidence)
    return MeasuredValue(
        value=value,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        scenarios=n,
        is_share=True,
    )


@pytest.mark.parametrize(
    ("threshold", "low", "value", "high", "point", "interval"),
    [
        ("≥ 85%", 0.86, 0.9, 0.93, "pass", "pass"),
        ("≥ 85%", 0.85, 0.9, 0.93, "pass", "pass"),
        ("> 85%", 0.85, 0.9, 0.93, "pass", "inconclusive"),
        ("≥ 85%", 0.80, 0.9, 0.93, "pass", "inconclusive"),
        ("≥ 85%", 0.80, 0.84, 0.86, "fail", "inconclusive"),
        ("≥ 85%", 0.80, 0.84, 0.85, "fail", "inconclusive"),
        ("≥ 85%", 0.80, 0.82, 0.84, "fail", "fail"),
        ("≥ 85%", None, 0.9, 0.93, "pass", "inconclusive"),
        ("≥ 85%", None, 0.7, 0.8, "fail", "fail"),
        ("≥ 85%", 0.8, 0.84, None, "fail", "inconclusive"),
        ("≥ 85%", 0.86, 0.9, None, "pass", "pass"),
        ("= 100%", 0.8, 1.0, 1.0, "pass", "pass"),
        ("≥ 100%", 0.8, 1.0, 1.0, "pass", "pass"),
        ("≥ 100%", 0.8, 0.99, 1.0, "fail", "fail"),
    ],
)
def test_a_share_against_its_threshold(
    threshold: str,
    low: float | None,
    value: float,
    high: float | None,
    point: Verdict,
    interval: Verdict,
) -> None:
    mark = parse_threshold(threshold, RATE)
    estimate = MeasuredValue(value=value, low=low, high=high)
    assert judge_value(mark, estimate, "point") == point
    assert judge_value(mark, estimate, "interval") == interval


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (3000, 4000, "pass"),
        (None, 4000, "pass"),
        (3000, 5000, "inconclusive"),
        (3000, None, "inconclusive"),
        (5000, None, "fail"),
        (6000, 7000, "fail"),
    ],
)
@pytest.mark.parametrize("written", ["< 5000ms", "≤ 4999ms"])
def test_what_is_better_when_lower(
    written: str, low: float | None, high: float | None, verdict: Verdict
) -> None:
    mark = parse_threshold(written, LATENCY)
    value = low or high or 0.0
    assert judge_value(mark, MeasuredValue(value=value, low=low, high=high), "interval") == verdict


def judged_as_was_said(threshold: Threshold, estimate: MeasuredValue) -> Verdict:
    """The contract's sentence, on every point of the interval at its ends and at the threshold."""
    assert estimate.low is not None
    assert estimate.high is not None
    points = [estimate.low, estimate.high, estimate.value]
    if all(threshold.is_met(point) for point in points):
        return "pass"
    return "inconclusive" if any(threshold.is_met(point) for point in points) else "fail"


@given(st.integers(0, 60), st.integers(1, 60), st.integers(2, 98))
def test_all_of_the_interval_has_to_be_on_one_side(passed: int, n: int, percent: int) -> None:
    estimate = share(min(passed, n), n)
    mark = parse_threshold(f"≥ {percent}%", RATE)
    found = judge_value(mark, estimate, "interval")
    assert found == judged_as_was_said(mark, estimate)
    assert is_thin(mark, estimate) == (found == "inconclusive")
    point = judge_value(mark, estimate, "point")
    assert point in ("pass", "fail")
    assert found in (point, "inconclusive")


@pytest.mark.long
@pytest.mark.parametrize("n", [20, 50, 100, 300, 1000, 5000])
@pytest.mark.parametrize("rate", [0.5, 0.7, 0.85, 0.9, 0.95, 0.99])
def test_a_rate_at_the_threshold_is_rarely_decided(rate: float, n: int) -> None:
    """Exactly at the threshold, at most 5 % of 10,000 runs fail, and at most 5 % pass."""
    _check_at_the_threshold(rate, n)


def test_a_rate_at_the_threshold_is_rarely_decided_in_brief() -> None:
    _check_at_the_threshold(0.9, 200)
    _check_at_the_threshold(0.99, 100)


def _check_at_the_threshold(rate: float, n: int) -> None:
    mark = parse_threshold(f"≥ {100 * rate:g}%", RATE)
    passed = np.random.default_rng(7).binomial(n, rate, RUNS)
    counts, times = np.unique(passed, return_counts=True)
    found: dict[Verdict, int] = {"pass": 0, "fail": 0, "inconclusive": 0}
    for count, many in zip(counts.tolist(), times.tolist(), strict=True):
        found[judge_value(mark, widen_bounds(mark, share(count, n)), "interval")] += many
    assert found["fail"] <= 0.05 * RUNS
    assert found["pass"] <= 0.05 * RUNS
    assert sum(found.values()) == RUNS


def test_where_wilson_alone_would_decide_too_soon() -> None:
    """96 of 100 where the rate is 98.8 %: Wilson's bound, though cautious, lies just below."""
    mark = parse_threshold("≥ 98.8%", RATE)
    hasty = share(96, 100)
    assert judge_value(mark, hasty, "interval") == "fail"
    careful = widen_bounds(mark, hasty)
    assert judge_value(mark, careful, "interval") == "inconclusive"
    assert is_thin(mark, careful)
    assert (careful.low, careful.high) == pytest.approx(clopper_pearson(96, 100), rel=1e-12)
    clear = share(90, 100)
    assert widen_bounds(mark, clear) is clear  # nothing changes where both say the same


@given(st.integers(0, 200), st.integers(2, 200), st.floats(0.8, 0.99))
def test_the_exact_interval_is_scipys(passed: int, n: int, confidence: float) -> None:
    passed = min(passed, n)
    found = exact_share(passed / n, n, confidence)
    assert found == pytest.approx(clopper_pearson(passed, n, confidence), abs=1e-9)


def clopper_pearson(passed: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    around = binomtest(passed, n).proportion_ci(confidence, method="exact")
    return float(around.low), float(around.high)


@pytest.mark.long
@pytest.mark.parametrize("runs", [2, 5])
@pytest.mark.parametrize(("rate", "scenarios"), [(0.9, 40), (0.95, 100), (0.7, 30)])
def test_repeated_runs_are_rarely_decided_either(rate: float, scenarios: int, runs: int) -> None:
    """Scenarios differ, each is run several times: the scenario is the unit."""
    rng = np.random.default_rng(9)
    mark = parse_threshold(f"≥ {100 * rate:g}%", RATE)
    found: dict[Verdict, int] = {"pass": 0, "fail": 0, "inconclusive": 0}
    for _ in range(2000):
        chances = rng.beta(rate, 1 - rate, scenarios)
        passed = rng.binomial(runs, chances)
        found[judge_value(mark, widen_bounds(mark, repeated(passed, runs)), "interval")] += 1
    assert found["fail"] <= 0.05 * 2000
    assert found["pass"] <= 0.05 * 2000


def repeated(passed: NDArray[np.int64], runs: int) -> MeasuredValue:
    n, clusters = passed.size * runs, passed.size
    value = float(passed.sum()) / n
    spread = float(((passed - value * runs) ** 2).sum()) / n**2
    around = wilson(value, n, spread, clusters, 0.95)
    return MeasuredValue(
        value=value,
        low=around.low,
        high=around.high,
        stderr=around.stderr,
        scenarios=clusters,
        is_share=True,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "mark"), [(0.9, 0.85), (0.88, 0.9), (0.97, 0.95), (0.6, 0.5), (0.3, 0.5), (0.99, 0.9)]
)
def test_as_many_more_scenarios_do_settle_it(rate: float, mark: float) -> None:
    """With so many in all, about 80 % of runs at this rate are decided, and rightly."""
    threshold = parse_threshold(f"≥ {100 * mark:g}%", RATE)
    begun = share(round(rate * 100), 100)
    more = count_further(threshold, begun) or 0
    n = 100 + more
    passed = np.random.default_rng(8).binomial(n, rate, 2000).tolist()
    right = "pass" if rate > mark else "fail"
    settled = sum(judge_value(threshold, share(count, n), "interval") == right for count in passed)
    assert settled / 2000 >= 0.72


def test_how_many_more_scenarios_are_told() -> None:
    mark = parse_threshold("≥ 90%", RATE)
    # 10 of 10: Wilson's lower bound is n / (n + z²), above 0.9 from 35 on.
    assert count_further(mark, share(10, 10)) == 25
    assert judge_value(mark, share(35, 35), "interval") == "pass"
    assert judge_value(mark, share(34, 34), "interval") == "inconclusive"
    assert count_further(mark, share(90, 100)) is None  # exactly there: no number can
    assert count_further(mark, MeasuredValue(value=0.95)) is None
    near, far = (count_further(mark, share(passed, 100)) or 0 for passed in (91, 95))
    assert near > far > 0


def test_equal_values_need_as_many_more_as_the_unseen_takes() -> None:
    """20 values of 0.0001: up to 0.16 is possible, and 0.05 is asked for."""
    mark = parse_threshold("≤ 0.05", read_scale(find_metric("brier")))

    def alike(n: int) -> MeasuredValue:
        around = bounded_interval(0.0001, 0.0, n, 0.95)
        return MeasuredValue(
            value=0.0001, low=around.low, high=around.high, stderr=0.0, scenarios=n
        )

    more = count_further(mark, alike(20))
    assert more is not None
    assert judge_value(mark, alike(20), "interval") == "inconclusive"
    assert judge_value(mark, alike(20 + more), "interval") == "pass"
    assert judge_value(mark, alike(20 + more * 3 // 4), "interval") == "inconclusive"


def test_repeated_runs_of_a_scenario_are_worth_less() -> None:
    mark = parse_threshold("≥ 90%", RATE)
    single = share(92, 100)
    assert single.stderr is not None
    alike = MeasuredValue(
        value=0.92, low=0.8, high=0.97, stderr=2 * single.stderr, scenarios=50, is_share=True
    )
    assert (count_further(mark, alike) or 0) > (count_further(mark, single) or 0)


def test_the_reason_says_all_there_is() -> None:
    mark = parse_threshold("≥ 90%", RATE)
    assert explain_verdict(mark, share(100, 100), "pass", None, thin=False, confidence=0.95) is None
    failed = explain_verdict(mark, share(50, 100), "fail", None, thin=False, confidence=0.95)
    assert failed == "50 %, required ≥ 90 %"
    thin = explain_verdict(
        mark, share(89, 100), "fail", (700, 2033, 7141), thin=True, confidence=0.9
    )
    assert thin == (
        "89 %, required ≥ 90 %; the 90 % interval includes the threshold; about 2,000 more "
        "scenarios would decide it if the value stays the same (700 to 7,100 within its error)"
    )
    open_ended = explain_verdict(
        mark, share(89, 100), "fail", (700, 900, None), thin=True, confidence=0.95
    )
    assert str(open_ended).endswith("stays the same (700 or more within its error)")
    one = explain_verdict(mark, share(89, 100), "fail", (1, 1, 1), thin=True, confidence=0.95)
    assert str(one).endswith("; about 1 more scenario would decide it")
    no_bounds = MeasuredValue(value=0.95)
    unknown = explain_verdict(mark, no_bounds, "inconclusive", None, thin=False, confidence=0.95)
    assert unknown == "inconclusive: no interval can be computed from these records"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5487, "54.9 %"), (0.00043, "0.043 %"), (0.9997, "99.97 %"), (1.0, "100 %"), (0.0, "0 %")],
)
def test_percentages_have_a_decimal_and_more_near_the_ends(value: float, text: str) -> None:
    assert format_value(value, RATE) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00234567, "USD", "0.00235 USD"),
        (1234.5678, "ms", "1,234.57 ms"),
        (0.000123456, None, "0.000123"),
        (0.98765, None, "0.9877"),
        (inf, "USD", "∞"),
        (0.0, "USD", "0 USD"),
        (-0.5, None, "−0.5"),
    ],
)
def test_small_numbers_keep_digits_that_say_something(
    value: float, unit: str | None, text: str
) -> None:
    scale = Scale(name="x", unit=unit, range=(-inf, inf), better="lower")
    assert format_value(value, scale) == text


@given(st.floats(0, 1))
def test_a_shown_value_is_on_its_own_side(value: float) -> None:
    mark = parse_threshold("≥ 90%", RATE)
    shown = float(format_value(value, RATE, mark).removesuffix(" %").replace("−", "-")) / 100
    assert shown == pytest.approx(value, abs=0.0005001)
    if abs(value - 0.9) > 1e-9:
        assert mark.is_met(shown) == mark.is_met(value)
