"""Answers, chains of thought and confidence, out of texts of any kind."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.systems.reply_text import AnswerRule, average_confidence, read_confidence


@pytest.mark.parametrize(
    ("rule", "text", "answer", "cot"),
    [
        (AnswerRule(), " 42 \n", "42", None),
        (AnswerRule(), "  ", None, None),
        (AnswerRule(after="ANSWER:"), "a ANSWER: 1, no,\nANSWER: 2 ", "2", "a ANSWER: 1, no,"),
        (AnswerRule(after="ANSWER:"), "ANSWER:", None, ""),
        (AnswerRule(after="ANSWER:"), "nothing", None, "nothing"),
        (AnswerRule(regex=r"(\d+)"), "12 and 13.", "13", "12 and"),
        (AnswerRule(regex=r"<(\w*)>"), "so <>", None, "so"),
        (AnswerRule(regex=r"(x)|y"), "so y", None, "so"),
    ],
)
def test_rules(rule: AnswerRule, text: str, answer: str | None, cot: str | None) -> None:
    assert rule.read(text) == (answer, cot)


@given(st.text(), st.text(min_size=1))
def test_a_mark_divides_any_text(before: str, answer: str) -> None:
    found, cot = AnswerRule(after="§§").read(
        f"{before.replace('§', '')}§§{answer.replace('§', '')}"
    )
    assert cot == before.replace("§", "").strip()
    assert (found or "") == answer.replace("§", "").strip()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("CONFIDENCE: 0.8", 0.8),
        ("Confidence: 80%", 0.8),
        ("**CONFIDENCE:** 1", 1.0),
        ("confidence = .25.", 0.25),
        ("CONFIDENCE: 0,5", 0.5),
        ("CONFIDENCE: 7", None),
        ("CONFIDENCE: 101%", None),
    ],
)
def test_stated_confidence(line: str, value: float | None) -> None:
    assert read_confidence(f"ANSWER: 4\n{line}") == ("ANSWER: 4", value)


@pytest.mark.parametrize("text", ["no", "CONFIDENCE: high", "my confidence: 0.3 is low"])
def test_no_confidence_leaves_the_text_alone(text: str) -> None:
    assert read_confidence(text) == (text, None)


def test_token_confidence_is_of_the_answers_tokens() -> None:
    tokens = [("a", -5.0), ("4", math.log(0.5)), ("2", math.log(0.5))]
    assert average_confidence("42", tokens) == pytest.approx(0.5)
    assert average_confidence("elsewhere", [("a", 0.0)]) == 1.0
    assert average_confidence(None, tokens) is None
    assert average_confidence("42", []) is None
