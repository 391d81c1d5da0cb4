"""What a record's `judgments` hold: a list of objects, whose votes, scores and costs are checked.

>>> read_judgments('[{"judge": "a", "weighted_score": 1.5}]')
Traceback (most recent call last):
calipers.records.fields.BadValue: judgment 1: weighted_score: 1.5 is outside [0, 1]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from calipers.records.fields import FIELDS, BadValue, Field, Kind
from calipers.records.usage import call_counts, calls_in
from calipers.support.strict_json import name_with_settings

REASONS = ("reasoning", "reasons", "reason", "explanation", "feedback")  # as judges call them
_SCORE = Field("weighted_score", Kind.NUMBER, low=0, high=1)


def listed(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """The judgments in a list of them, or its JSON; BadValue says why it is none."""
    try:
        found = json.loads(judgments) if isinstance(judgments, str) else judgments
    except (ValueError, RecursionError):  # Polars does not escape all it should
        raise BadValue("not JSON") from None
    if not isinstance(found, list | tuple):
        raise BadValue("no list of judgments")
    for place, each in enumerate(found, start=1):
        if not isinstance(each, Mapping):
            raise BadValue(f"judgment {place} is not an object")
    return found


def vote_of(judgment: Mapping[str, Any]) -> bool | None:
    """Whether the run passed, by this judge."""
    found: bool | None = _read(FIELDS["passed"], judgment)
    return found


def score_of(judgment: Mapping[str, Any]) -> float | None:
    """The judge's weighted score, in [0, 1]."""
    found: float | None = _read(_SCORE, judgment)
    return found


def calls_of(judgment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What judging used: tokens or a cost of each model; nothing where it does not say."""
    model = str(judgment.get("model") or judgment.get("judge"))
    if judgment.get("usage") is not None:
        return [{"model": model, **call} for call in calls_in(judgment["usage"])]
    counts = call_counts(judgment)
    return [{"model": model, **counts}] if counts else []


def who_judged(judgment: Mapping[str, Any]) -> tuple[str, str]:
    """Who answers for a judgment, and the hash of the rubric.

    A cascade, a model with its settings, or a name; asked several times for each record it is
    another judge.
    """
    names = (judgment.get(key) for key in ("cascade", "model", "judge"))
    who = next((str(name) for name in names if name not in (None, "")), "somebody unnamed")
    settings = judgment.get("settings")
    if isinstance(settings, Mapping) and not judgment.get("cascade"):
        who = name_with_settings(who, settings)
    samples = judgment.get("samples")
    who = f"{who} × {samples}" if isinstance(samples, int) and samples > 1 else who
    rubric_hash = judgment.get("rubric_hash")
    return who, "" if rubric_hash is None else str(rubric_hash)


def rubric_key(judgment: Mapping[str, Any]) -> str:
    """Return what tells a judgment's rubric from others: its hash, else its name, else nothing."""
    found = (judgment.get(key) for key in ("rubric_hash", "rubric"))
    return next((str(each) for each in found if each not in (None, "")), "")


def says_nothing(judgment: Mapping[str, Any]) -> bool:
    """Say whether a judgment holds no verdict and no score: the judge failed or could not judge."""
    scores = judgment.get("scores")
    of_criteria = scores.values() if isinstance(scores, Mapping) else ()
    values = (*map(judgment.get, ("passed", "weighted_score", "overall_score")), *of_criteria)
    return all(value is None for value in values)


def record_hash(name: str | None, answer: str | None) -> str | None:
    """Return what tells a judged record from others: 64 bits of a hash of its id and its answer.

    >>> record_hash("q1", "42")
    'deb0082edd617f1a'
    """
    if name is None:
        return None
    return sha256(json.dumps([name, answer]).encode()).hexdigest()[:16]


def read_judgments(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """The judgments, all they hold checked; BadValue says what is wrong with which."""
    found = listed(judgments)
    for place, judgment in enumerate(found, start=1):
        try:
            vote_of(judgment)
            score_of(judgment)
            calls_of(judgment)
        except BadValue as problem:
            raise BadValue(f"judgment {place}: {problem}") from None
    return found


def _read(field: Field, judgment: Mapping[str, Any]) -> Any:
    try:
        return field.read(judgment.get(field.name))
    except BadValue as problem:
        raise BadValue(f"{field.name}: {problem}") from None


def judgments_in(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The judgments that a record of ours holds."""
    found = record.get("judgments")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def judging_cost(record: Mapping[str, Any]) -> float:
    """What the judges of a record cost, as far as that is known."""
    return sum(each.get("cost_usd") or 0.0 for each in judgments_in(record))
