"""A trace of the wrong shape is named by the place where it is wrong."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from calipers.records.fields import BadValue, Number
from calipers.records.nested_fields import TracedCall, TracedMessage, read_trace

WRONG: list[tuple[Any, str]] = [
    ([], "a list, not an object"),
    ("a text", "not JSON: Expecting value"),
    ('"a text"', "a text, not an object"),
    (3, "3, not an object"),
    (True, "true, not an object"),
    ("{" * 100_000, "not JSON: Expecting property name enclosed in double quotes"),
    ('{"a":' * 100_000, "nested too deep"),
    ({"tool_calls": {}}, "tool_calls is an object, not a list"),
    ({"tool_calls": "search"}, "tool_calls is a text, not a list"),
    ({"tool_calls": [None]}, "tool_calls[0] is null, not an object"),
    ({"tool_calls": [{"tool_name": "a"}, "b"]}, "tool_calls[1] is a text, not an object"),
    ({"tool_calls": [{}]}, "tool_calls[0].tool_name is missing"),
    ({"tool_calls": [{"tool_name": None}]}, "tool_calls[0].tool_name is null"),
    ({"tool_calls": [{"tool_name": math.nan}]}, "tool_calls[0].tool_name is null"),
    ({"tool_calls": [{"tool_name": ["a"]}]}, "tool_calls[0].tool_name is a list, not a text"),
    ({"agent_interactions": 1}, "agent_interactions is 1, not a list"),
    ({"agent_interactions": [1]}, "agent_interactions[0] is 1, not an object"),
    (
        {"agent_interactions": [{"from": {"name": "a"}}]},
        "agent_interactions[0].from is an object, not a text",
    ),
    (
        {"agent_interactions": [{"from": "a", "to": math.inf}]},
        "agent_interactions[0].to is Infinity, not a text",
    ),
    ({"agent_tasks": [1, 2]}, "agent_tasks is a list, not an object"),
    ({"agent_tasks": {"a": -1}}, 'agent_tasks["a"] is -1, negative'),
    ({"agent_tasks": {"a": Number("-1e3")}}, 'agent_tasks["a"] is -1e3, negative'),
    ({"agent_tasks": {"a": math.nan}}, 'agent_tasks["a"] is NaN, not a finite number'),
    ({"agent_tasks": {"a": math.inf}}, 'agent_tasks["a"] is Infinity, not a finite number'),
    ({"agent_tasks": {"a": 10**400}}, f'agent_tasks["a"] is 1{"0" * 58}…, not a finite number'),
    ({"agent_tasks": {"a": "1"}}, 'agent_tasks["a"] is a text, not a number'),
    ({"agent_tasks": {"a": True}}, 'agent_tasks["a"] is true, not a number'),
    ({"agent_tasks": {"\x1b[31m": -1}}, 'agent_tasks["\\u001b[31m"] is -1, negative'),
]


@pytest.mark.parametrize(("trace", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_what_is_wrong_is_named(trace: Any, problem: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_trace(trace)
    assert str(caught.value) == problem


@pytest.mark.parametrize("nothing", [None, math.nan, "null", "NaN"])
def test_a_null_is_no_trace(nothing: Any) -> None:
    assert read_trace(nothing) is None


def test_absent_is_not_empty() -> None:
    trace = read_trace({"tool_calls": [], "agent_tasks": {}, "agent_interactions": None})
    assert trace is not None
    assert (trace.tool_calls, trace.agent_interactions, trace.agent_tasks) == ((), None, {})


def test_other_keys_are_ignored() -> None:
    call = {"tool_name": "a", "success": "maybe", "duration": -3, "timestamp": [], "more": {}}
    trace = read_trace({"tool_calls": [call], "coordination_events": 7})
    assert trace is not None
    assert trace.tool_calls == (TracedCall("a", None),)


def test_numbers_and_booleans_are_read_as_their_json_text() -> None:
    calls = [{"tool_name": 1, "context": {"a": [1, "é"]}}, {"tool_name": True, "context": 2}]
    messages = [{"from": 1, "to": 2.0, "type": False}, {"from": 2.5, "to": 10**20}]
    trace = read_trace({"tool_calls": calls, "agent_interactions": messages})
    assert trace is not None
    assert trace.tool_calls == (TracedCall("1", '{"a": [1, "é"]}'), TracedCall("true", "2"))
    assert trace.agent_interactions == (
        TracedMessage("1", "2", "false"),
        TracedMessage("2.5", str(10**20), None),
    )


def test_an_agent_without_a_count_is_not_counted() -> None:
    """Tables of objects fill up with nulls what other rows have."""
    trace = read_trace({"agent_tasks": {"a": 1, "b": None}})
    assert trace is not None
    assert trace.agent_tasks == {"a": 1.0}


def test_of_a_key_written_twice_the_first_counts() -> None:
    trace = read_trace('{"agent_tasks": {"a": 1, "a": 2}, "tool_calls": [], "tool_calls": 3}')
    assert trace is not None
    assert (trace.agent_tasks, trace.tool_calls) == ({"a": 1.0}, ())


def test_json_text_is_read_like_the_object() -> None:
    trace = {"tool_calls": [{"tool_name": "a", "context": "b"}], "agent_tasks": {"x": 2}}
    assert read_trace(json.dumps(trace)) == read_trace(trace)
