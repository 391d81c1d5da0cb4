"""Equations in a chain of thought, as DEFINITIONS describes them (`math_usr`, version 2)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.metrics.equations import count_equations_of
from calipers.metrics.equations.parser import count_equations, find_equations
from tests.conformance.equations_reference import equations as reference
from tests.examples import examples


def told(text: str) -> list[tuple[str, str]]:
    return [(text[start:end], verdict.value) for start, end, verdict in find_equations(text)]


def verdicts(text: str) -> list[str]:
    return [verdict for _, verdict in told(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Operators, numbers and chains.
        ("so 3 + 4 = 7 apples", ["right"]),
        ("12 x 3 = 36, 3x4=13", ["right", "wrong"]),
        ("7 · 8 = 56; 6 ∗ 7 = 42; 9 ÷ 3 = 3; 8 ⁄ 2 = 5", ["right", "right", "right", "wrong"]),
        ("10 − 4 = 6 and 10 – 4 = 6", ["right", "right"]),
        ("[2 + 3] * (4 - 1) = 15", ["right"]),
        ("1,000 + 250.50 = 1,250.50", ["right"]),
        ("1 1/2 + 1 1/2 = 3", ["right"]),
        ("2 + 2 = 4 = 5 - 1", ["right", "right"]),
        ("2(3 + 4) = 14", ["right"]),
        ("<<5*3=15>>15 and <<5*3=16>>", ["right", "wrong"]),
        ("16 - 3 = <<16-3=13>>13", ["right", "right"]),
        # LaTeX and Markdown.
        (r"\[ 9 \text{ movies} \times 3 \text{ times} = 27 \text{ tickets} \]", ["right"]),
        (r"\(\frac{20,000 \text{ km}}{400 \text{ km/day}} = 50\) days", ["right"]),
        (r"\dfrac{1}{2} \cdot 18 = 8", ["wrong"]),
        (r"50 + 70 = \boxed{120}", ["right"]),
        (r"\left( 2 + 3 \right) \div 5 = 1", ["right"]),
        (r"\$5 \times 3 = \$15", ["right"]),
        (r"25\% \times 80 = 20", ["right"]),
        (r"1\frac{1}{2} + 1 = 2.5", ["right"]),
        ("3 + 4 = **7**, 3 + 5 = *8*, **3 + 4 = 8**", ["right", "right", "wrong"]),
        ("| Apples | 2 × $3 = $6 | 5 * 5 = 26 |", ["right", "wrong"]),
        ("|3 - 5| = 2 and 3 + 4 = |7|", []),
        ("> 3 + 4 = 7", ["right"]),
        ("> > - 3 + 4 = 8", ["wrong"]),
        ("100 - 25 = 75 -> 75 * 2 = 151", ["right", "wrong"]),
        ("3+4=7 => 7*2=14 ==> 14/7=2 --> 2 + 2 = 4", ["right"] * 4),
        (r"\begin{align*} 3 + 4 &= 7 \\ 5 \times 2 &= 11 \end{align*}", ["right", "wrong"]),
        # Units.
        ("4 feet * 2 = 8 feet", ["right"]),
        ("$5 + $3 = $9", ["wrong"]),
        ("3 inches of chalk + 2 inches of chalk = 5", ["right"]),
        ("20 km/h * 2 hours = 40 km", ["right"]),
        ("$0.50/book * 8 books = $4.00", ["right"]),
        ("2 (Pam) + 4 (Fred) = 6 rides", ["right"]),
        ("60% of 25 = 15 and 1/2 of 18 = 9", ["right", "right"]),
        ("60% of the 25 students = 16", ["wrong"]),
        ("6 inches = 6/12 feet", ["right"]),
        ("10 appointments x 30 minutes = 5 hours", ["right"]),
        ("1.5 hours + 20 minutes = 2 hours", []),
        ("2 melt/15 minutes * 100 = 200 and 12 eggs / 3 eggs = 5", ["wrong"]),
        # Percentages, either reading.
        ("100% - 20% = 80%", ["right"]),
        ("50 * 20% = 10", ["right"]),
        ("1/4 * 100 = 25%", ["right"]),
        ("75 - 20% = 60", ["right"]),
        ("50 * 20% = 11", ["wrong"]),
        # Rounding.
        ("10 / 3 = 3.33", ["right"]),
        ("20 / 3 = 6.66", ["right"]),
        ("20 / 3 = 6.5", ["wrong"]),
        ("10 / 3 ≈ 3", ["right"]),
        (r"10 / 3 \approx 3.3", ["right"]),
        ("10 / 3 = 3...", ["right"]),
        ("10 / 3 = 3", ["rounded"]),
        ("20 / 3 = 6", ["wrong"]),
        ("0.1 + 0.2 = 0.30000000000000004", ["right"]),
        ("2.3333333333333335 * 3 = 7", ["right"]),
        ("7 / 0 = 0", ["wrong"]),
        # Labels and algebra are no sides.
        ("Day 2 = 70 * 6", []),
        ("Price in 2010 = 20000 * 0.5", []),
        ("x2 = 4 * 3", []),
        ("P_{2010} = 20000 * 0.5", []),
        ("2x + 3 = 7, x + 5 = 7 * 2, 5 * y = 10", []),
        ("so we have 12 = 3 * 4", ["right"]),
        ("Step 2 - 5 + 3 = 8", ["right"]),
        ("3 + 4 = 7 apples - 2 were eaten", ["right"]),
        ("2 ** 3 = 9, 2^3 = 9, sqrt(9 + 16) = 6", []),
        ("5 + 3 <= 9, 5 + 3 == 8, 5 + 3 => 8", ["right"]),
        ("4:30 - 1:30 = 3", []),
        ("3 = 3, x = 5", []),
        # What must not stop the program.
        ("so (-5 + 3) = 9", ["wrong"]),
        (f"{'1' * 601} + 1 = 2, {'1' * 5000} 1/2 + 1 = 2, {'1' * 5000}½ + 1 = 2", []),
        (f"{'1' * 600} - {'1' * 600} = 0", ["right"]),
    ],
)
def test_definition(text: str, expected: list[str]) -> None:
    assert verdicts(text) == expected


def test_where_an_equation_stands() -> None:
    assert told("so 2 + 2 = 5 apples") == [("2 + 2 = 5", "wrong")]
    assert told("a <<1+1=2>> b\n3 - 1 = <<3-1=2>>2!") == [
        ("<<1+1=2>>", "right"),
        ("<<3-1=2>>", "right"),
        ("3 - 1 = <<3-1=2>>2", "right"),
    ]


# --- What is drawn as a tree, and written as people write, is read as that tree ---

Tree = int | Fraction | tuple[str, "Tree", "Tree"]
_SYMBOLS = {
    "plain": {"+": "+", "-": "-", "*": "*", "/": "/"},
    "signs": {"+": "+", "-": "−", "*": "×", "/": "÷"},
    "latex": {"+": "+", "-": "-", "*": r"\times", "/": r"\div"},
}
trees = st.recursive(
    st.integers(1, 999),
    lambda children: st.tuples(st.sampled_from("+-*/"), children, children),
    max_leaves=5,
)


def value_of(tree: Tree) -> Fraction | None:
    if not isinstance(tree, tuple):
        return Fraction(tree)
    operator, left, right = tree[0], value_of(tree[1]), value_of(tree[2])
    if left is None or right is None or (operator == "/" and right == 0):
        return None
    if operator == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def written(tree: Tree, style: str, unit: str) -> str:
    if not isinstance(tree, tuple):
        return f"{tree}{unit}"
    operator, left, right = tree
    parts = [written(side, style, unit) for side in (left, right)]
    if style == "latex" and operator == "/":
        return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
    sides = [
        f"({part})" if isinstance(side, tuple) else part
        for part, side in zip(parts, (left, right), strict=True)
    ]
    return f"{sides[0]} {_SYMBOLS[style][operator]} {sides[1]}"


@examples(300)
@given(
    trees.filter(lambda tree: isinstance(tree, tuple)),
    st.sampled_from(sorted(_SYMBOLS)),
    st.sampled_from(["", " apples"]),
    st.sampled_from(["", "So she has ", "- Then: ", "so ("]),
    st.integers(-3, 3),
)
def test_a_drawn_equation_is_judged_by_its_exact_value(
    tree: Tree, style: str, unit: str, before: str, off: int
) -> None:
    value = value_of(tree)
    if value is None or value.denominator != 1:
        return
    result = value + off
    text = f"{before}{written(tree, style, unit)} = {result}{unit}"
    assert verdicts(text) == ["right" if off == 0 else "wrong"], text


# --- Columns, the exact reader and the conformance reference say the same ---

PIECES = st.sampled_from(
    [
        *(
            "so she has ",
            "a total of ",
            "cost of ",
            "Step 2 - ",
            "- ",
            "1. ",
            "(",
            ") ",
            ". ",
            ", ",
            "\n",
            "\r",
            "\r\n",
        ),
        *(
            "12",
            "3",
            "0.5",
            ".25",
            "1,000",
            "$5",
            "$2.50",
            "7%",
            "2.3333333333333335",
            "46",
            "3.33",
            "½",
            "x",
            "2x",
            "x ",
        ),
        *(
            " + ",
            "-",
            " - ",
            "*",
            " x ",
            " × ",
            "/",
            " / ",
            " – ",
            "+",
            " = ",
            "=",
            " = ",
            " ≈ ",
            "==",
            "<=",
            " of ",
        ),
        *(
            " apples",
            " hours",
            " minutes",
            "/hour",
            " cents",
            " dozen",
            " per day",
            " so ",
            " and ",
            "km",
            " m",
            "!",
            "…",
        ),
        *(
            r"\times ",
            r"\frac{6}{3}",
            r"\text{ apples}",
            r"\boxed{6}",
            r"\(",
            r"\$",
            "**",
            "*",
            "<<3*4=12>>",
            "<<1+1=3>>",
            "<<7/2=3>>",
        ),
        *("6", "4", "2", "1", "9", "24", "10", "0", "100"),
    ]
)


Counted = dict[str, int] | None


def count_quickly(texts: Sequence[str | None]) -> list[Counted]:
    """Return the counts by the native library, if the package has it."""
    return count_equations_of(pl.Series("cot", texts, dtype=pl.String)).to_list()


def _counted(texts: Sequence[str | None]) -> list[Counted]:
    return [None if text is None else count_equations(text)._asdict() for text in texts]


@examples(400)
@given(st.lists(st.one_of(st.none(), st.lists(PIECES, max_size=14).map("".join)), max_size=8))
def test_the_library_agrees_with_the_exact_reader(texts: list[str | None]) -> None:
    assert count_quickly(texts) == _counted(texts)


_NUMBERS = st.one_of(
    st.integers(0, 60), st.sampled_from(["0.5", "1.25", "33.3", "1,200", "2.3333333333333335"])
).map(str)
_LINES = st.builds(
    lambda before, a, f, b, rest, sign, r, after: f"{before}{a}{f}{b}{rest}{sign}{r}{after}",
    st.sampled_from(["", "She has ", "for ", "a total of ", "Total: ", "(", "half of ", "8 packs of ", "1. ", "x = "]),
    _NUMBERS,
    st.sampled_from([" + ", " - ", "*", " x ", "/", " / ", " apples + ", " hours * "]),
    _NUMBERS,
    st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from(["+", " - ", " * ", "/"]), _NUMBERS)),
    st.sampled_from([" = ", "=", " = $"]),
    _NUMBERS,
    st.sampled_from(["", ".", " apples", " of them", " hours and 3 minutes", ")", " - 2", " cents", "%", "/hour", " = 3"]),
)  # fmt: skip


@examples(400)
@given(st.lists(_LINES, max_size=12))
def test_the_library_agrees_on_lines_that_look_like_equations(lines: list[str]) -> None:
    assert count_quickly(lines) == _counted(lines)


@examples(400)
@given(st.one_of(_LINES, st.lists(PIECES, max_size=14).map("".join)))
def test_the_reference_says_the_same(text: str) -> None:
    assert verdicts(text) == reference(text)
