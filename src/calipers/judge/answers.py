"""A judge's answer, read strictly: every score there, on its scale, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from calipers.judge.request import CONFIDENCE, NOT_APPLICABLE
from calipers.judge.rubrics import Rubric, Score

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(?P<json>.*)\n\s*```\s*\Z", re.DOTALL | re.IGNORECASE)
_REASON = 2000  # characters of a reason that are kept
_KEYS = ("reason", "scores")


class BadAnswer(ValueError):  # noqa: N818 (reads as a sentence: "raise BadAnswer")
    """An answer outside its schema; the text says why, in our words."""


class Answer(NamedTuple):
    """The score of each criterion or item, None where it does not apply, and the reason."""

    scores: dict[str, Score]
    reason: str
    confidence: float | None = None  # where it was asked for

    def to_json(self) -> str:
        """As a judge would have written it."""
        sure = {} if self.confidence is None else {CONFIDENCE: self.confidence}
        said = {"reason": self.reason, "scores": self.scores, **sure}
        return json.dumps(said, ensure_ascii=False)


def read_answer(text: str, rubric: Rubric, *, asks_confidence: bool = False) -> Answer:
    """What a judge's answer says; BadAnswer says why it cannot be used."""
    found = _parsed(text)
    keys = (*_KEYS, CONFIDENCE) if asks_confidence else _KEYS
    if not isinstance(found, dict) or set(found) != set(keys):
        *first, last = keys
        raise BadAnswer(f"it is not an object of {', '.join(first)} and {last}")
    if not isinstance(found["reason"], str):
        raise BadAnswer("reason is no text")
    scores = found["scores"]
    if not isinstance(scores, dict):
        raise BadAnswer("scores is no object")
    if missing := [name for name in rubric.names if name not in scores]:
        raise BadAnswer(f"scores lacks {missing[0]}")
    if len(scores) > len(rubric.names):
        raise BadAnswer("scores has a name that is none of the rubric's")
    return Answer(
        {name: _score(scores[name], name, rubric) for name in rubric.names},
        found["reason"].strip()[:_REASON],
        _share(found[CONFIDENCE]) if asks_confidence else None,
    )


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadAnswer(f"{CONFIDENCE} is no number from 0 to 1")
    return float(value)


def _parsed(text: str) -> Any:
    fenced = _FENCED.match(text)
    try:
        return json.loads(
            fenced["json"] if fenced else text, object_pairs_hook=_once, parse_constant=_no_number
        )
    except BadAnswer:
        raise
    except (ValueError, RecursionError):
        raise BadAnswer("it is not JSON") from None


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadAnswer("a key is there twice")
        found[key] = value
    return found


def _no_number(_: str) -> NoReturn:
    raise BadAnswer("a score is not a finite number")


def _score(value: Any, name: str, rubric: Rubric) -> Score:
    low, high = rubric.range_of(name)
    if rubric.may_not_apply(name) and (value is None or value == NOT_APPLICABLE):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadAnswer(f"{name} is not a number")
    if not low <= value <= high or not isfinite(value):
        raise BadAnswer(f"{name} is outside {low:g} to {high:g}")
    return value
