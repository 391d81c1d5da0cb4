"""What a page marks in a chain of thought is what the metrics count."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from calipers.dashboard.highlight import CORRECTION, WRONG, diff_words, mark_thought
from calipers.metrics.declare.settings import Settings
from calipers.metrics.equations.parser import count_equations, find_equations
from calipers.metrics.families.reasoning import (
    find_corrections,
    mark_steps,
    self_correcting,
    step_count,
)

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["1. ", "- ", "* ", "\n", "\r\n", "\r", "2 + 2 = 4", "2+2=5", "<<3*4=12>>", "<<1+1=3>>"]
        ),
        st.sampled_from(["3 ** 2 = 9", "Actually, ", "SORRY", "let me fix", "i made a mistaKe"]),
        st.sampled_from(["4 x 5 = 20", " = 21", "$5 + 10% = ", "ſorry", "İactually", " ", "a"]),
        st.text(max_size=6),
    ),
    max_size=12,
).map("".join)


def of(feature: object, text: str) -> object:
    expression = feature.expression(Settings())  # type: ignore[attr-defined]
    return pl.DataFrame({"cot": [text]}).select(expression).item()


@given(PIECES)
def test_located_equations_are_the_equations(text: str) -> None:
    found = find_equations(text)
    counts = count_equations(text)
    verdicts = [equation.verdict.value for equation in found]
    assert len(found) == counts.equations
    assert verdicts.count("wrong") == counts.wrong
    assert verdicts.count("rounded") == counts.rounded
    assert counts.equations <= counts.equals_signs
    for start, end, _ in found:
        assert 0 <= start < end <= len(text)
        assert "=" in text[start:end]


@given(PIECES)
def test_marked_steps_and_corrections_are_those_counted(text: str) -> None:
    assert sum(is_step for is_step, _ in mark_steps(text)) == of(step_count, text)
    assert bool(find_corrections(text)) == of(self_correcting, text)


@given(PIECES)
def test_marks_lose_no_character(text: str) -> None:
    lines = mark_thought(text)
    shown = ["".join(piece.text for piece in line.pieces) for line in lines]
    assert shown == [line for _, line in mark_steps(text)]
    steps = [line.step for line in lines if line.step is not None]
    assert steps == list(range(1, len(steps) + 1))


def test_what_is_wrong_is_marked() -> None:
    lines = mark_thought("1. We have 2 + 2 = 5 apples.\nActually it is 2 + 2 = 4.")
    marks = [[(piece.text, piece.mark) for piece in line.pieces if piece.mark] for line in lines]
    assert lines[0].step == 1
    assert marks[0] == [("2 + 2 = 5", WRONG)]
    assert marks[1] == [("Actually", CORRECTION), ("2 + 2 = 4", "right")]


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_difference_in_words_loses_no_character(first: str, second: str) -> None:
    left, right = diff_words(first, second)
    assert "".join(run.text for run in left) == first
    assert "".join(run.text for run in right) == second
    same = ["".join(run.text for run in side if not run.changed) for side in (left, right)]
    assert same[0] == same[1]


def test_a_difference_names_the_words() -> None:
    left, right = diff_words("the answer is 5", "the answer is 6")
    assert [run.text for run in left if run.changed] == ["5"]
    assert [run.text for run in right if run.changed] == ["6"]
