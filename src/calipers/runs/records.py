"""From a reply, or a fault, to the record of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calipers.records.completing import (
    DERIVED,
    SYNONYMS,
    TIMES,
    TRACE,
    TRACE_PARTS,
    complete_row,
)
from calipers.records.fields import FIELDS, BadValue, Kind
from calipers.records.rows import check_field, classify_scalar
from calipers.records.tasks import FOUND_OUT
from calipers.runs.suite import Suite
from calipers.systems.answers import AnswerRule, average_confidence, read_confidence, split_thought
from calipers.systems.calls import KINDS, Call, Fault, Reply
from calipers.systems.journal import encode_record
from calipers.systems.simulated_user import SIMULATED_USER
from calipers.systems.wire import MOST_BYTES

# Fields of the task or the run: a system that could change them would grade itself.
_GIVEN = frozenset(
    (
        *("id", "model", "tier", "run", "prompt", "input", "target", "reference", "actual"),
        *("expected_behaviors", "checks", "category", "capability", "tags", "weight", "turns"),
        "optimal_tools",
    )
)
_FOUND_OUT = frozenset(FOUND_OUT)
_GIVES_OTHERS = frozenset((TRACE, *TRACE_PARTS, *TIMES, *SYNONYMS.values()))
_MOST_FIELDS = 1000  # each may become a column of a table
_SHORT = 1000  # characters
_LARGE = 1 << 53
_DEEPEST = 100  # levels of lists and objects in a field


class ReplyReader:
    """Turns the replies of a suite's systems into fields of records."""

    def __init__(self, suite: Suite, predicted: type | None = None) -> None:
        answer = suite.answer
        self._rule = AnswerRule() if answer is None else AnswerRule(answer.after, answer.regex)
        self._asks = suite.confidence is not None and suite.confidence.ask
        self._weighs = suite.confidence is not None and suite.confidence.logprobs
        self._splits = suite.split_thinking
        self._has_judges = bool(suite.judges)
        self._predicted = predicted  # the type of what was predicted first

    def read_fields(self, call: Call, reply: Reply) -> dict[str, Any]:
        """Return the fields that a reply gives, as `score` will read them.

        Raises a Fault for a reply that reports an error, and a `bad_response` for one that `score`
        would refuse, so that it spoils its own record and no other.
        """
        fields = _check_fields(call, reply.fields)
        if (error := fields.pop("error", None)) not in (None, "", False):
            raise _make_fault(str(error))
        if self._has_judges and fields.get("judgments") is not None:
            raise Fault("bad_response", "judgments: only the suite's judges give them")
        if call.user is None and fields.get(SIMULATED_USER) is not None:
            raise Fault("bad_response", f"{SIMULATED_USER}: only the suite's user gives it")
        self._check_prediction(fields.get("predicted"))
        if reply.messages and "messages" not in fields:
            fields["messages"] = list(reply.messages)
        if reply.text is None:
            return fields
        _refuse_too_long(reply.text)
        return {**self._read_text(reply.text, reply), **fields}

    def _check_prediction(self, predicted: Any) -> None:
        """Refuse a prediction of another type than the first: a column has one type."""
        kind = classify_scalar(predicted)
        self._predicted = self._predicted or kind
        if kind is not None and kind is not self._predicted:
            raise Fault("bad_response", "predicted: of another type than in the replies before")

    def _read_text(self, text: str, reply: Reply) -> dict[str, Any]:
        """Return what the text contains: answer, chain of thought, confidence."""
        probability, thought = None, reply.reasoning
        if self._splits:
            text, aloud = split_thought(text)
            thought = aloud if thought is None else thought
        if self._asks:
            text, probability = read_confidence(text)
        answer, cot = self._rule.read(text)
        found: dict[str, Any] = {"answer": answer}
        if thought is not None and cot:
            found["output"] = text  # the cot is the provider's, and the text must not be lost
        if (cot := cot if thought is None else thought) is not None:
            found["cot"] = cot
        if self._weighs:
            probability = average_confidence(answer, reply.logprobs)
        if probability is not None:
            found["prob_correct"] = probability
        return found


def _check_fields(call: Call, given: Mapping[str, Any]) -> dict[str, Any]:
    if len(given) > _MOST_FIELDS:
        raise Fault("bad_response", f"more than {_MOST_FIELDS:,} fields")
    fields = {}
    for name, value in given.items():
        if _is_given(name, value, call):
            if value is not None and value != call.record.get(name):
                raise Fault(
                    "bad_response", f"{name} is not what was given, but {value!r}", most=200
                )
            continue
        if _is_plain(name, value):
            fields[name] = value
            continue
        try:
            _refuse_deep(value)
            check_field(name, value)
        except BadValue as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        if not (isinstance(value, float) and math.isnan(value)):
            fields[name] = value
    _check_derived(fields)
    _check_json(fields)
    return fields


def _check_derived(fields: Mapping[str, Any]) -> None:
    """Raise a Fault for fields that give others, such as a trace, which are then wrong."""
    if fields.keys().isdisjoint(_GIVES_OTHERS):
        return
    try:
        check_field(TRACE, complete_row(fields, DERIVED).get(TRACE))
    except BadValue as problem:
        raise Fault("bad_response", str(problem)) from None


def _check_json(fields: Mapping[str, Any]) -> None:
    """Raise a Fault for fields that are no JSON, or too long."""
    if all(map(_is_small, fields.values())):
        return
    try:
        line = encode_record(fields)
    except (ValueError, TypeError, RecursionError) as problem:
        raise Fault("bad_response", f"no JSON: {problem}") from None
    _refuse_too_long(line)


def _is_plain(name: str, value: Any) -> bool:
    """Say whether a field holds a usual value, which needs no further check."""
    field = FIELDS.get(name)
    if field is None:
        return False
    if field.kind is Kind.NUMBER:
        return type(value) is int and max(field.low, -_LARGE) <= value <= min(field.high, _LARGE)
    return field.kind is Kind.TEXT and type(value) is str


def _is_small(value: Any) -> bool:
    """Say whether a value is a short text or a count, which are JSON for certain."""
    if type(value) is str:
        return len(value) < _SHORT and value.isascii()
    return type(value) is int and abs(value) < _LARGE


def _is_given(name: str, value: Any, call: Call) -> bool:
    """Say whether a field is the task's: by its name, or because the task has it."""
    given = call.record.get(name)
    if name == "messages" and isinstance(given, list) and isinstance(value, list):
        return value[: len(given)] != given  # a conversation may go on
    return name in _GIVEN or (name not in _FOUND_OUT and given is not None)


def _refuse_deep(value: Any, level: int = 0) -> None:
    if level > _DEEPEST:
        raise BadValue("nested too deep")
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for part in value:
        _refuse_deep(part, level + 1)


def _refuse_too_long(text: str) -> None:
    """Raise a Fault for a text longer than a server or command may send."""
    if len(text) > MOST_BYTES:
        raise Fault("bad_response", f"a reply of more than {MOST_BYTES >> 20} MiB")


def _make_fault(error: str) -> Fault:
    kind, colon, message = error.partition(":")
    if colon and kind in KINDS:
        return Fault(kind, message.strip())  # type: ignore[arg-type]
    return Fault("exception", error)
