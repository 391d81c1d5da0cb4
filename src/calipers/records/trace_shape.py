"""The shape of a trace, and of the field `optimal_tools`: the best tool for each context.

A wrong part is named by its place inside.

>>> read_trace({"tool_calls": [{"tool_name": "search"}, {"context": "look it up"}]})
Traceback (most recent call last):
calipers.records.fields.BadValue: tool_calls[1].tool_name is missing
>>> read_tool_map('{"find": 3}')
Traceback (most recent call last):
calipers.records.fields.BadValue: find: 3 is not the name of a tool
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from calipers.records.fields import (
    BadValue,
    Number,
    dump_json,
    is_null,
    is_text,
    keep_first,
    load_nested,
)
from calipers.support.quick_dataclasses import dataclass

_SHOWN = 60  # characters of a name or a number in a message
_EXACT_WHOLE = 2**63

CALLS = pl.List(pl.Struct({"tool_name": pl.String(), "context": pl.String()}))
MESSAGES = pl.List(pl.Struct({"from": pl.String(), "to": pl.String(), "type": pl.String()}))

AS_READ = pl.Struct(
    {"tool_calls": CALLS, "agent_interactions": MESSAGES, "agent_tasks": pl.String()}
)
"""Traces as Polars reads them: an object of any keys is left as its JSON text."""


class TracedCall(NamedTuple):
    """One call of a tool."""

    tool_name: str
    context: str | None


class TracedMessage(NamedTuple):
    """One message; whom it is from, or to, may be unknown."""

    sender: str | None
    receiver: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class Trace:
    """What one run did; None for a part that its trace lacks. Other keys of a trace are ignored."""

    tool_calls: tuple[TracedCall, ...] | None
    agent_interactions: tuple[TracedMessage, ...] | None
    agent_tasks: Mapping[str, float] | None


def read_trace(value: Any) -> Trace | None:
    """Return a trace from an object or its JSON text; None for null; raise BadValue otherwise."""
    try:
        if is_text(value):
            value = _parse(value)
        return None if is_null(value) else _read_trace(_check_object(value, ""))
    except RecursionError:
        raise BadValue("nested too deep") from None


def _read_trace(found: Mapping[str, Any]) -> Trace:
    calls, messages = _list_objects(found, "tool_calls"), _list_objects(found, "agent_interactions")
    return Trace(
        None if calls is None else tuple(_read_call(*each) for each in calls),
        None if messages is None else tuple(_read_message(*each) for each in messages),
        _read_tasks(found.get("agent_tasks")),
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=keep_first)
    except ValueError as error:
        problem = error.msg.removesuffix(" at") if isinstance(error, json.JSONDecodeError) else ""
        raise BadValue(f"not JSON: {problem or error}") from None


def _read_call(call: Mapping[str, Any], place: str) -> TracedCall:
    if "tool_name" not in call and isinstance(call.get("function"), Mapping):  # as OpenAI's
        function = call["function"]
        call = {"tool_name": function.get("name"), "context": function.get("arguments")}
    name = _read_text(call.get("tool_name"), f"{place}.tool_name")
    if name is None:
        raise BadValue(f"{place}.tool_name is {'null' if 'tool_name' in call else 'missing'}")
    return TracedCall(name, _read_context(call.get("context"), f"{place}.context"))


def _read_context(value: Any, place: str) -> str | None:
    """Return what a call was made for or with: a text, or anything else as its JSON text."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return _read_text(value, place)


def _read_message(message: Mapping[str, Any], place: str) -> TracedMessage:
    return TracedMessage(
        *(_read_text(message.get(key), f"{place}.{key}") for key in ("from", "to", "type"))
    )


def _read_tasks(tasks: Any) -> dict[str, float] | None:
    if is_null(tasks):
        return None
    return {
        str(agent): _read_count(count, f"agent_tasks[{_shorten(json.dumps(str(agent)))}]")
        for agent, count in _check_object(tasks, "agent_tasks").items()
        if count is not None  # tables of objects fill up with nulls what other rows have
    }


def _read_count(value: Any, place: str) -> float:
    number = _read_number(value)
    if number is None:
        raise BadValue(f"{place} is {_describe_kind(value)}, not a number")
    if not math.isfinite(number):
        raise BadValue(f"{place} is {_describe_kind(value)}, not a finite number")
    if number < 0:
        raise BadValue(f"{place} is {_describe_kind(value)}, negative")
    return number


def _list_objects(
    trace: Mapping[str, Any], key: str
) -> Iterator[tuple[Mapping[str, Any], str]] | None:
    """Return the objects of a list, each with its place; None if there is no list."""
    value = trace.get(key)
    if is_null(value):
        return None
    if not isinstance(value, list | tuple):
        raise BadValue(f"{key} is {_describe_kind(value)}, not a list")
    places = (f"{key}[{index}]" for index in range(len(value)))
    return ((_check_object(each, place), place) for each, place in zip(value, places, strict=True))


def _check_object(value: Any, place: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise BadValue(f"{place} is {_describe_kind(value)}, not an object".removeprefix(" is "))


def _read_text(value: Any, place: str) -> str | None:
    """Return a text; a number or a boolean as its JSON text."""
    if is_null(value):
        return None
    if is_text(value):
        return value
    if isinstance(value, bool):
        return json.dumps(value)
    number = _read_number(value)
    if number is None or not math.isfinite(number):
        raise BadValue(f"{place} is {_describe_kind(value)}, not a text")
    whole = number.is_integer() and abs(number) < _EXACT_WHOLE
    return str(int(value)) if isinstance(value, int) else str(int(number) if whole else number)


def _read_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Number | int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _describe_kind(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return _shorten(json.dumps(value))
    if isinstance(value, Number):
        return _shorten(value)
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "an object"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def read_tool_map(value: Any) -> Mapping[str, str]:
    """Return the tools by context, of an object or its JSON; BadValue says what is wrong."""
    found = load_nested(value, "not JSON")
    if not isinstance(found, Mapping) or not found:
        raise BadValue('no object of contexts and tools, for example {"*": "search"}')
    for context, tool in found.items():
        if not is_text(tool):
            raise BadValue(f"{context}: {dump_json(tool)[:60]} is not the name of a tool")
    return found
