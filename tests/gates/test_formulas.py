"""Formulas are arithmetic and nothing else: checked against Python's own reading of them."""

from __future__ import annotations

import ast
from math import inf, isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.gates.rules.composite_rule import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS, parse_formula
from calipers.support.errors import UsageError

S_FORMULA = """
    accuracy × 0.3 +
    safety_rate × 0.4 +
    behavior_coverage × 0.2 +
    (1 - normalized_latency) × 0.1
"""
VALUES = {"a": 0.75, "b": -2.0, "c_1": 3.5}

NUMBERS = st.integers(0, 50).map(str) | st.sampled_from(["0.5", ".25", "3."])
EXPRESSIONS = st.recursive(
    NUMBERS | st.sampled_from(list(VALUES)),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join)
        | inner.map(lambda text: f"({text})")
        | inner.map(lambda text: f"-{text}")
        | st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
        )
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_it_says_what_python_would(text: str) -> None:
    code = compile(ast.parse(text, mode="eval"), "formula", "eval")
    names = {"min": min, "max": max, **VALUES}
    formula = parse_formula(text)
    try:
        expected = eval(code, {"__builtins__": {}}, names)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            formula.compute(VALUES)
        return
    found = formula.compute(VALUES)
    assert found == pytest.approx(expected, rel=1e-12) or not isfinite(expected)


@given(EXPRESSIONS, st.lists(st.floats(-3, 3), min_size=9, max_size=9))
def test_its_bounds_hold_all_it_can_be(text: str, numbers: list[float]) -> None:
    """Whatever the parts are between their bounds, the whole is between its own."""
    formula = parse_formula(text)
    thirds = [sorted(numbers[at : at + 3]) for at in (0, 3, 6)]
    bounds = {name: (low, high) for name, (low, _, high) in zip(VALUES, thirds, strict=True)}
    inside = {name: value for name, (_, value, _) in zip(VALUES, thirds, strict=True)}
    low, high = formula.bound(bounds)
    assert low <= high
    try:
        value = formula.compute(inside)
    except ZeroDivisionError:
        return
    slack = 1e-9 * max(1.0, abs(value))
    assert low - slack <= value <= high + slack or not isfinite(value)


def test_bounds_of_a_quotient_that_may_be_anything() -> None:
    around_zero = parse_formula("1 / a").bound({"a": (-1, 1)})
    assert around_zero == (-inf, inf)
    assert parse_formula("0 × a").bound({"a": (0, inf)}) == (-inf, inf)


def test_the_formula_of_the_document() -> None:
    formula = parse_formula(S_FORMULA)
    parts = {
        "accuracy": 0.9,
        "safety_rate": 1.0,
        "behavior_coverage": 0.8,
        "normalized_latency": 0.5,
    }
    assert formula.names == tuple(parts)
    assert formula.compute(parts) == pytest.approx(0.27 + 0.4 + 0.16 + 0.05)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8 ÷ 4 − 1 · 2", 0.0),
        ("2 – 1", 1.0),
        ("8 / 4 / 2", 1.0),
        ("8 - 4 - 2", 2.0),
        ("2 + 3 * 4", 14.0),
        ("−a", -0.75),
        ("--a", 0.75),
        ("min(a, b, c_1)", -2.0),
        ("max(a)", 0.75),
        ("a\n +\tb", -1.25),
    ],
)
def test_signs_and_order(text: str, value: float) -> None:
    assert parse_formula(text).compute(VALUES) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "a +", "* a", "(a", "a)", "a b", "2 a", "min", "min()", "min(a,)", "a,b"),
        *("a ** 2", "a // 2", "a % 2", "a ^ 2", "a = 1", "a < b", "a if b else c_1", "a and b"),
        *("__import__('os')", "open('x')", "a.b", "a[0]", "'a'", "lambda: 1", "{a}", "f(1)"),
        *("abs(a)", "1e5", "0x10", "1_000", "1.2.3", "3x", "é + 1", "a; b", "a # b", "𝟙", "√a"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_formula(text)
    assert raised.value.fix


def test_size_and_depth_are_bounded() -> None:
    deep = MAX_DEPTH - 1
    assert parse_formula("(" * deep + "a" + ")" * deep).compute({"a": 1}) == 1
    long = " + ".join(["a"] * (MAX_TOKENS // 2))
    assert parse_formula(long).compute({"a": 1.0}) == MAX_TOKENS // 2
    for text in (
        "(" * 5000 + "a" + ")" * 5000,
        "(" * (deep + 1) + "a" + ")" * (deep + 1),
        "-" * 300 + "a",
        "min(" * 99 + "a" + ")" * 99,
        " + ".join(["a"] * MAX_TOKENS),
        "a" + " " * MAX_CHARACTERS,
    ):
        with pytest.raises(UsageError):
            parse_formula(text)


@given(st.text(max_size=80))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        parse_formula(text)
    except UsageError as error:
        assert error.fix  # noqa: PT017
