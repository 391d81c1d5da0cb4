"""From a reply, or a fault, to the record of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calipers.records import FIELDS, BadValue
from calipers.runner.journal import encoded
from calipers.suites import Suite
from calipers.systems.answers import Rule, stated_confidence, token_confidence
from calipers.systems.calls import KINDS, Call, Fault, Reply
from calipers.systems.wire import MOST_BYTES

_OURS = ("id", "model", "tier", "run")


class Reading:
    """How a suite's replies become record fields."""

    def __init__(self, suite: Suite) -> None:
        answer = suite.answer
        self._rule = Rule() if answer is None else Rule(answer.after, answer.regex)
        self._asks = suite.confidence is not None and suite.confidence.ask
        self._weighs = suite.confidence is not None and suite.confidence.logprobs

    def fields(self, call: Call, reply: Reply) -> dict[str, Any]:
        """The fields that a reply gives, checked; a reply that reports an error is a fault."""
        fields = _checked(call, reply.fields)
        if (error := fields.pop("error", None)) is not None:
            raise _reported(str(error))
        if reply.text is None:
            return fields
        _refuse_too_long(reply.text)
        return {**self._told(reply.text, reply), **fields}

    def _told(self, text: str, reply: Reply) -> dict[str, Any]:
        """What the text says: answer, chain of thought, how sure it is."""
        probability = None
        if self._asks:
            text, probability = stated_confidence(text)
        answer, cot = self._rule.read(text)
        found: dict[str, Any] = {"answer": answer}
        if reply.reasoning is not None and cot:
            found["output"] = text  # the cot is the provider's, and the text must not be lost
        if (thought := reply.reasoning if reply.reasoning is not None else cot) is not None:
            found["cot"] = thought
        if self._weighs:
            probability = token_confidence(answer, reply.logprobs)
        if probability is not None:
            found["prob_correct"] = probability
        return found


def _checked(call: Call, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, value in given.items():
        if name in _OURS or name == "prompt":
            if value is not None and value != call.record.get(name):
                raise Fault("bad_response", f"{name} is not what was given, but {value!r}"[:200])
            continue
        try:
            if name in FIELDS:
                FIELDS[name].read(value)
        except BadValue as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise Fault("bad_response", f"{name}: {problem}") from None
        if not (isinstance(value, float) and math.isnan(value)):
            fields[name] = value
    try:
        line = encoded(fields)
    except (ValueError, TypeError, RecursionError) as problem:
        raise Fault("bad_response", f"no JSON: {problem}") from None
    _refuse_too_long(line)
    return fields


def _refuse_too_long(text: str) -> None:
    """What no server or command may send, no function may return."""
    if len(text) > MOST_BYTES:
        raise Fault("bad_response", f"a reply of more than {MOST_BYTES >> 20} MiB")


def _reported(error: str) -> Fault:
    kind, colon, message = error.partition(":")
    if colon and kind in KINDS:
        return Fault(kind, message)  # type: ignore[arg-type]
    return Fault("exception", error)
