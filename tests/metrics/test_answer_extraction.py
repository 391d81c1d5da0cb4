"""The answer within a recorded text, as a user means it."""

from __future__ import annotations

import pytest

import calipers as cal

ROWS = [
    {"id": "a", "answer": "That makes $18.", "target": "18"},
    {"id": "b", "answer": "60 toys", "target": "60"},
    {"id": "c", "answer": "It is 1,000.50 in all", "target": "1000.5"},
    {"id": "d", "answer": "from 10-5 we get 5", "target": "5"},
    {"id": "e", "answer": "x = -3", "target": "-3"},
    {"id": "f", "answer": "I do not know", "target": "7"},
    {"id": "g", "answer": "7", "target": "8"},
]


def accuracy(**options: object) -> float | None:
    return cal.score(ROWS, metrics=["accuracy"], **options)["accuracy"].value  # type: ignore[arg-type]


def test_the_last_number() -> None:
    assert accuracy() == 0
    assert accuracy(answer="last-number") == pytest.approx(5 / 7)


def test_what_follows_the_last_mark() -> None:
    rows = [
        {"answer": "ANSWER: 4, no, ANSWER: 16", "target": "16"},
        {"answer": "16", "target": "16"},  # no mark, no answer
    ]
    assert cal.score(rows, answer_after="ANSWER:")["accuracy"].value == 0.5


def test_a_pattern() -> None:
    rows = [{"answer": "so (b), no (c)", "target": "C"}]
    assert cal.score(rows, answer_regex=r"\(([a-d])\)")["accuracy"].value == 1
    assert cal.score(rows, answer_regex=r"[a-d]\b")["accuracy"].value == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answer_regex": "(?=x)"}, "look-around"),
        ({"answer_regex": "("}, "unclosed group"),
        ({"answer_after": "A:", "answer": "last-number"}, "one way to find the answer"),
        ({"answer": "first"}, "no such choice"),
        ({"answer_after": ""}, "an empty text"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(cal.UsageError, match=message):
        accuracy(**options)


def test_a_policy_may_say_it() -> None:
    policy = {
        "thresholds": {"blocking": {"accuracy": 70}},
        "metric_settings": {"answer": "last-number"},
    }
    found = cal.gate(ROWS, policy=policy)
    assert found.checks[0].value == pytest.approx(5 / 7)
