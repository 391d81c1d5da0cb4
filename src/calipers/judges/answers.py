"""A judge's answer, read tolerantly and scored strictly.

Prose around the JSON, a thought aloud before it, a code fence, further keys and numbers in quotes
do no harm. Every score has to be there and on its scale. What may be somebody else's answer is
refused: two that differ, one beside a part of another, and one that stands in the judged text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from calipers.judges.request import CONFIDENCE, NOT_APPLICABLE
from calipers.judges.rubrics import Rubric, Score

MOST_TEXT = 200_000  # characters; more is not an answer
_MOST_TRIES = 1_000  # braces that begin no object
_REASON = 2000  # characters of a reason that are kept
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_SCORES = re.compile(r"\\*[\"']scores\\*[\"']\s*:")
_PLANTED = re.compile(
    r"\\*[\"']reason\\*[\"']\s*:\s*\\*[\"'](.{0,2000}?)\\*[\"']\s*[,}]", re.DOTALL
)
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,18})?")


class BadAnswer(ValueError):  # noqa: N818 (reads as a sentence: "raise BadAnswer")
    """A reply that cannot be used; the text says why, in our words.

    `said` is the reply where it holds no answer at all, as when a model declines.
    """

    def __init__(self, why: str, said: str | None = None) -> None:
        self.said = said
        super().__init__(why)


class JudgeAnswer(NamedTuple):
    """The score of each criterion or item, None where it does not apply, and the reason."""

    scores: dict[str, Score]
    reason: str
    confidence: float | None = None  # where it was asked for

    def to_json(self) -> str:
        """Return the answer as a judge would have written it."""
        sure = {} if self.confidence is None else {CONFIDENCE: self.confidence}
        said = {"reason": self.reason, "scores": self.scores, **sure}
        return json.dumps(said, ensure_ascii=False)


def read_answer(
    text: str, rubric: Rubric, *, asks_confidence: bool = False, judged: Sequence[str] = ()
) -> JudgeAnswer:
    """Return what a judge's reply says of the judged texts.

    BadAnswer where it holds no answer, or one that cannot be used; the message says why.
    """
    thought = _THOUGHT.match(text)
    said = text[thought.end() :] if thought else text
    answers: list[JudgeAnswer] = []
    for found, written in find_objects(said):
        if "scores" in found:
            answers.append(_read(found, rubric, asks_confidence=asks_confidence))
            said = said.replace(written, "", 1)
    if not answers and _SCORES.search(said):
        raise BadAnswer("it is not a whole JSON object")
    if not answers:
        raise BadAnswer("it holds no JSON object with scores", said.strip())
    if any(each._replace(reason="") != answers[-1]._replace(reason="") for each in answers):
        raise BadAnswer("it holds two answers that differ")
    if _SCORES.search(said):
        raise BadAnswer("beside one answer it holds a part of another")
    if any(_is_quoted(each, judged) for each in answers):
        raise BadAnswer("it repeats an answer from the judged text")
    return answers[-1]


def find_objects(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each whole object that is not part of another, and its text.

    Raises:
        BadAnswer: the text is too long, has too many braces, or an object has a key twice or a
            number that is not finite.

    >>> [found for found, _ in find_objects('I say {"a": 1}, not {2}.')]
    [{'a': 1}]
    """
    if len(text) > MOST_TEXT:
        raise BadAnswer(f"it is longer than {MOST_TEXT:,} characters")
    decoder = json.JSONDecoder(
        object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
    )
    at, tries = text.find("{"), 0
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except BadAnswer:
            raise
        except (ValueError, RecursionError):
            end, tries = at + 1, tries + 1
            if tries > _MOST_TRIES:
                raise BadAnswer("it has too many braces that begin no JSON object") from None
        else:
            yield found, text[at:end]
        at = text.find("{", end)


def _refuse_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadAnswer("a key is there twice")
        found[key] = value
    return found


def _refuse_constant(_: str) -> NoReturn:
    raise BadAnswer("a score is not a finite number")


def _is_quoted(answer: JudgeAnswer, texts: Sequence[str]) -> bool:
    """Say whether a text contains an answer with the same reason: it was quoted, not given."""
    own = _normalize(answer.reason)
    return any(
        _normalize(planted[1])[:_REASON] == own
        for text in texts
        if _SCORES.search(text)
        for planted in _PLANTED.finditer(text)
    )


def _normalize(reason: str) -> str:
    """Return a reason without marks and spaces, which a quotation may change."""
    return "".join(filter(str.isalnum, reason.casefold()))


def _read(found: Mapping[str, Any], rubric: Rubric, *, asks_confidence: bool) -> JudgeAnswer:
    """Return an object as an answer; further keys are not read."""
    keys = ("reason", CONFIDENCE) if asks_confidence else ("reason",)
    if missing := [key for key in keys if key not in found]:
        raise BadAnswer(f"it has no {missing[0]}")
    if not isinstance(found["reason"], str):
        raise BadAnswer("reason is not text")
    scores = found["scores"]
    if not isinstance(scores, dict):
        raise BadAnswer("scores is not an object")
    if missing := [name for name in rubric.names if name not in scores]:
        raise BadAnswer(f"scores lacks {missing[0]}")
    read = {name: _read_score(scores[name], name, rubric) for name in rubric.names}
    answer = JudgeAnswer(read, found["reason"].strip()[:_REASON])
    if not asks_confidence:
        return answer
    sure = _read_number(found[CONFIDENCE])
    if sure is None or not 0 <= sure <= 1:
        raise BadAnswer(f"{CONFIDENCE} is not a number from 0 to 1")
    return answer._replace(confidence=float(sure))


def _read_number(value: Any) -> int | float | None:
    """Return the number that stands there, or in a text that is nothing else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value


def _read_score(value: Any, name: str, rubric: Rubric) -> Score:
    low, high = rubric.get_range(name)
    if rubric.may_not_apply(name) and (value is None or value == NOT_APPLICABLE):
        return None
    number = _read_number(value)
    if number is None:
        raise BadAnswer(f"{name} is not a number")
    if not low <= number <= high or not isfinite(number):
        raise BadAnswer(f"{name} is outside {low:g} to {high:g}")
    return number
