"""Thresholds: what is accepted, what it means for each metric, what makes no sense."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics import metric_named
from calipers.metrics.thresholds import (
    Operator,
    Scale,
    Threshold,
    parse_margin,
    parse_threshold,
    read_scale,
)
from calipers.support.errors import UsageError

RATE = Scale(name="pass_rate", unit=None, range=(0, 1), better="higher")
WRONG = Scale(name="error_rate", unit=None, range=(0, 1), better="lower")
LATENCY = Scale(name="latency_p95_ms", unit="ms", range=(0, inf), better="lower")
SECONDS = Scale(name="duration_seconds", unit="s", range=(0, inf), better="lower")
STEPS = Scale(name="step_count_mean", unit="steps", range=(0, inf), better=None)
OWN = Scale(name="final_score", unit=None, range=(-inf, inf), better="higher")


@pytest.mark.parametrize(
    ("written", "scale", "operator", "value"),
    [
        (85, RATE, "≥", 0.85),
        (0.85, RATE, "≥", 0.85),
        ("≥ 85%", RATE, "≥", 0.85),
        (">= 0.85", RATE, "≥", 0.85),
        ("100%", RATE, "≥", 1.0),
        ("= 100%", RATE, "=", 1.0),
        ("== 100 %", RATE, "=", 1.0),
        (100, RATE, "≥", 1.0),
        (1.0, RATE, "≥", 1.0),
        ("1.0", RATE, "≥", 1.0),
        ("1%", RATE, "≥", 0.01),
        ("> 0", RATE, ">", 0.0),
        (0.49, WRONG, "≤", 0.49),
        ("50%", WRONG, "≤", 0.5),
        ("<= 0.5", WRONG, "≤", 0.5),  # a sign says that it is a value, as in >= 0.85
        ("> 50%", RATE, ">", 0.5),
        (1.5, RATE, "≥", 0.015),
        ("  .5 ", RATE, "≥", 0.5),
        (5, WRONG, "≤", 0.05),
        ("≤5%", WRONG, "≤", 0.05),
        ("= 0%", WRONG, "=", 0.0),
        ("< 5000ms", LATENCY, "<", 5000),
        (5000, LATENCY, "≤", 5000),
        (1, LATENCY, "≤", 1),
        ("<= 2.5 s", LATENCY, "≤", 2500),
        ("1500ms", SECONDS, "≤", 1.5),
        ("30", SECONDS, "≤", 30),
        ("≥ 3", STEPS, "≥", 3),
        ("≤ 12 steps", STEPS, "≤", 12),
        (1, OWN, "≥", 1),
        (85, OWN, "≥", 85),
        ("85%", OWN, "≥", 0.85),
        ("≥ −0.5", OWN, "≥", -0.5),
    ],
)
def test_what_is_written_is_understood(
    written: Any, scale: Scale, operator: Operator, value: float
) -> None:
    assert parse_threshold(written, scale) == Threshold(operator=operator, value=value, scale=scale)


@pytest.mark.parametrize(
    ("written", "scale", "message", "fix"),
    [
        (1, RATE, "a bare 1 may mean 1 % or all", "write 1% for one in a hundred, or 100%"),
        ("1", RATE, "a bare 1 may mean", "1%"),
        ("≥ 1", RATE, "a bare 1 may mean", "1%"),
        (0, RATE, "≥ 0 % can never fail", 'write "> 0 %"'),
        (">= 0%", RATE, "≥ 0 % can never fail", "> 0 %"),
        (100, WRONG, "≤ 100 % can never fail", "< 100 %"),
        ("≤ 100%", WRONG, "can never fail", "< 100 %"),
        ("≥ 0", STEPS, "can never fail", "> 0 steps"),
        (1.0, WRONG, "a bare 1.0 may mean 1% or 100%", 'write "1%" or "< 100%"'),
        (0.5, WRONG, "a bare 0.5 may mean 0.5% or 50%", 'write "0.5%" or "50%"'),
        ("0.75", WRONG, "a bare 0.75 may mean 0.75% or 75%", 'write "0.75%" or "75%"'),
        ("≤ 1.0", WRONG, "can never fail", "< 100 %"),
        (101, RATE, "101 is above 100 %", "85%"),
        ("≥ 120%", RATE, "above 100 %", "85%"),
        (-0.1, RATE, "outside 0 % to 100 %", "85%"),
        ("85ms", RATE, "is in ms, and it is a ratio", "85%"),
        ("< 90%", RATE, "asks for worse: higher is better", "≥ 85%"),
        ("≥ 5%", WRONG, "asks for worse: lower is better", "≤ 5%"),
        ("= 0%", RATE, "asks for the worst: higher is better", "≥ 85%"),
        ("= 100%", WRONG, "asks for the worst: lower is better", "≤ 5%"),
        ("> 100%", RATE, "can never be met", "85%"),
        ("< 0%", WRONG, "can never be met", "≤ 5%"),
        ("5%", LATENCY, "is in %, and it is measured in ms", "≤ 5000ms"),
        ("≥ 5000ms", LATENCY, "asks for worse", "≤ 5000ms"),
        ("5000 tokens", LATENCY, "is in tokens", "5000ms"),
        (-5, LATENCY, "outside 0 ms to ∞", "5000ms"),
        (3, STEPS, "neither direction is better", '"≥ 3" or "≤ 3"'),
        (nan, RATE, "nan is not a threshold", "85%"),
        (inf, LATENCY, "inf is not a threshold", "5000ms"),
        (True, RATE, "True is not a threshold", "85%"),
        (None, RATE, "None is not a threshold", "85%"),
        ([85], RATE, "is not a threshold", "85%"),
        ("", RATE, "is not a threshold", "85%"),
        ("high", RATE, "is not a threshold", "85%"),
        ("inf", LATENCY, "is not a threshold", "5000ms"),
        ("1e3", LATENCY, "is not a threshold", "5000ms"),
        ("=< 5", LATENCY, "is not a threshold", "5000ms"),
        ("≥= 5%", RATE, "is not a threshold", "85%"),
        ("٨٥%", RATE, "is not a threshold", "85%"),
        ("85% 90%", RATE, "is not a threshold", "85%"),
        ("9" * 100, LATENCY, "is not a threshold", "5000ms"),
        (1e300, LATENCY, "is not a threshold", "5000ms"),
    ],
)
def test_what_makes_no_sense_is_refused(written: Any, scale: Scale, message: str, fix: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_threshold(written, scale)
    assert raised.value.message.startswith(f"{scale.name}: ")
    assert message in raised.value.message
    assert fix in raised.value.fix


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_counts_that_meet_a_percentage_meet_it(passed: int, n: int) -> None:
    """Compared as counts: whole percents against every share of up to 10,000 scenarios."""
    passed = min(passed, n)
    for percent in (2, 50, 85, 90, 95, 100):
        mark = parse_threshold(f"≥ {percent}%", RATE)
        assert mark.is_met(passed / n) == (100 * passed >= percent * n)
        exact = parse_threshold(f"= {percent}%", RATE)
        assert exact.is_met(passed / n) == (100 * passed == percent * n)
        strict = parse_threshold(f"> {percent}%", RATE) if percent < 100 else None
        assert strict is None or strict.is_met(passed / n) == (100 * passed > percent * n)


def test_one_in_a_hundred_million_is_not_all() -> None:
    assert not parse_threshold("= 100%", RATE).is_met((10**8 - 1) / 10**8)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=30))
def test_anything_is_understood_or_refused(written: Any) -> None:
    for scale in (RATE, LATENCY, STEPS):
        try:
            found = parse_threshold(written, scale)
        except UsageError as error:
            assert error.message  # noqa: PT017
            assert error.fix  # noqa: PT017
        else:
            assert scale.range[0] <= found.value <= scale.range[1]


def test_what_leaves_no_room_is_exact() -> None:
    exact = ("= 90%", "≥ 100%", 100)
    assert all(parse_threshold(each, RATE).is_exact for each in exact)
    assert parse_threshold("≤ 0%", WRONG).is_exact
    assert not parse_threshold("≥ 99.9%", RATE).is_exact
    assert not parse_threshold(5000, LATENCY).is_exact


@pytest.mark.parametrize(
    ("written", "scale", "text"),
    [
        (85, RATE, "≥ 85 %"),
        ("99.95%", RATE, "≥ 99.95 %"),
        ("< 12500ms", LATENCY, "< 12,500 ms"),
        (0.0000001, OWN, "≥ 1e−07"),
        ("≥ 0.85", OWN, "≥ 0.85"),
    ],
)
def test_a_threshold_is_shown_as_people_read_it(written: Any, scale: Scale, text: str) -> None:
    assert str(parse_threshold(written, scale)) == text


@pytest.mark.parametrize(
    ("written", "scale", "margin"),
    [
        (0.01, RATE, 0.01),
        ("1%", RATE, 0.01),
        (0, RATE, 0.0),
        ("50%", RATE, 0.5),
        ("0.5%", RATE, 0.005),
        ("-2%", RATE, -0.02),
        ("200ms", LATENCY, 200),
        ("0.5 s", LATENCY, 500),
    ],
)
def test_margins(written: Any, scale: Scale, margin: float) -> None:
    assert parse_margin(written, scale) == margin


@pytest.mark.parametrize(
    ("written", "scale"),
    [
        ("≥ 1%", RATE),
        (2, RATE),
        (1.0, RATE),
        ("5%", LATENCY),
        ("x", RATE),
        (0.5, RATE),
        (-0.5, RATE),
        (0.75, WRONG),
        ("100%", RATE),
    ],
)
def test_margins_that_make_no_sense(written: Any, scale: Scale) -> None:
    with pytest.raises(UsageError):
        parse_margin(written, scale)


def test_the_scale_is_the_metrics_own() -> None:
    assert read_scale(metric_named("latency_p95_ms")) == LATENCY
    assert read_scale(metric_named("error_rate")) == WRONG
