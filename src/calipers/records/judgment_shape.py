"""The shape of a record's `judgments`: a list of objects with checked votes, scores and costs.

>>> read_judgments('[{"judge": "a", "weighted_score": 1.5}]')
Traceback (most recent call last):
calipers.records.fields.BadValue: judgment 1: weighted_score: 1.5 is outside [0, 1]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from calipers.records.fields import FIELDS, BadValue, Field, Kind, load_nested
from calipers.records.usage import count_call, list_calls
from calipers.support.strict_json import name_with_settings

FAILED = "failed"  # of a judgment that may be better when asked for again
REASONS = ("reasoning", "reasons", "reason", "explanation", "feedback")  # as judges call them
_SCORE = Field("weighted_score", Kind.NUMBER, low=0, high=1)


def read_list(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """Return the judgments in a list or its JSON; raise BadValue with the reason otherwise."""
    found = load_nested(judgments, "not JSON")
    if not isinstance(found, list | tuple):
        raise BadValue("no list of judgments")
    for place, each in enumerate(found, start=1):
        if not isinstance(each, Mapping):
            raise BadValue(f"judgment {place} is not an object")
    return found


def read_vote(judgment: Mapping[str, Any]) -> bool | None:
    """Return whether the run passed, by this judge."""
    found: bool | None = _read(FIELDS["passed"], judgment)
    return found


def read_score(judgment: Mapping[str, Any]) -> float | None:
    """Return the judge's weighted score, in [0, 1]."""
    found: float | None = _read(_SCORE, judgment)
    return found


def read_calls(judgment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what judging used: tokens or a cost of each model; empty if not recorded."""
    model = str(judgment.get("model") or judgment.get("judge"))
    if judgment.get("usage") is not None:
        return [{"model": model, **call} for call in list_calls(judgment["usage"])]
    counts = count_call(judgment)
    return [{"model": model, **counts}] if counts else []


def identify_judge(judgment: Mapping[str, Any]) -> tuple[str, str]:
    """Return what identifies the judge of a judgment, and the hash of the rubric.

    The judge is a cascade, a model with its settings, or a name; a judge that is asked several
    times per record is another one.
    """
    names = (judgment.get(key) for key in ("cascade", "model", "judge"))
    who = next((str(name) for name in names if name not in (None, "")), "an unnamed judge")
    settings = judgment.get("settings")
    if isinstance(settings, Mapping) and not judgment.get("cascade"):
        who = name_with_settings(who, settings)
    samples = judgment.get("samples")
    who = f"{who} × {samples}" if isinstance(samples, int) and samples > 1 else who
    rubric_hash = judgment.get("rubric_hash")
    return who, "" if rubric_hash is None else str(rubric_hash)


def identify_rubric(judgment: Mapping[str, Any]) -> str:
    """Return what identifies a judgment's rubric: its hash, else its name, else nothing."""
    found = (judgment.get(key) for key in ("rubric_hash", "rubric"))
    return next((str(each) for each in found if each not in (None, "")), "")


def is_empty(judgment: Mapping[str, Any]) -> bool:
    """Say whether a judgment holds no verdict and no score."""
    scores = judgment.get("scores")
    of_criteria = scores.values() if isinstance(scores, Mapping) else ()
    values = (*map(judgment.get, ("passed", "weighted_score", "overall_score")), *of_criteria)
    return all(value is None for value in values)


def record_hash(name: str | None, answer: str | None) -> str | None:
    """Return what identifies a judged record: 64 bits of a hash of its id and its answer.

    >>> record_hash("q1", "42")
    'deb0082edd617f1a'
    """
    if name is None:
        return None
    return sha256(json.dumps([name, answer]).encode()).hexdigest()[:16]


def read_judgments(judgments: Any) -> Sequence[Mapping[str, Any]]:
    """Return the judgments, fully checked; raise BadValue with what is wrong with which."""
    found = read_list(judgments)
    for place, judgment in enumerate(found, start=1):
        try:
            read_vote(judgment)
            read_score(judgment)
            read_calls(judgment)
        except BadValue as problem:
            raise BadValue(f"judgment {place}: {problem}") from None
    return found


def _read(field: Field, judgment: Mapping[str, Any]) -> Any:
    try:
        return field.read(judgment.get(field.name))
    except BadValue as problem:
        raise BadValue(f"{field.name}: {problem}") from None


def get_judgments(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the judgments that a record of ours holds."""
    found = record.get("judgments")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def add_judgments(
    record: Mapping[str, Any], judgments: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the record with further judgments; its own, which may be JSON in a text, stay."""
    before = record.get("judgments")
    if isinstance(before, str):
        before = json.loads(before)
    own = before if isinstance(before, list) else []
    return {**record, "judgments": [*own, *judgments]}


def sum_judging_cost(record: Mapping[str, Any]) -> float:
    """Return what the judges of a record cost, as far as known."""
    if "judgments" not in record:
        return 0.0
    return sum(each.get("cost_usd") or 0.0 for each in get_judgments(record))
