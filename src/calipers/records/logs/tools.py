"""Tool calls in a conversation, in the shapes of different providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from calipers.records.any_rows import parse_cell
from calipers.records.logs.parts import as_list, as_mapping, list_objects, read_text

_ARGUMENTS = ("arguments", "args", "input", "kwargs")
_OF_CALLS = ("tool_calls", "tool_call_id", "error", "status")


def list_calls(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the tools called, with the arguments of each and whether the call succeeded.

    >>> call = {"id": "1", "function": {"name": "add", "arguments": '{"a": 2}'}}
    >>> list_calls([{"role": "assistant", "tool_calls": [call]}])
    [{'tool_name': 'add', 'args': {'a': 2}, 'success': True}]
    """
    known = [each for each in messages if isinstance(each, dict)]
    calls = [
        as_mapping(call)
        for each in known
        for call in (*as_list(each.get("tool_calls")), *_list_used(each.get("content")))
    ]
    if not calls:
        return []
    failed = {str(each.get("tool_call_id")) for each in known if _has_failed(each)}
    return [made for call in calls if (made := _read_call(call, failed)) is not None]


def drop_texts(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a message only what `list_calls` reads: its texts may be long."""
    used = _list_used(message.get("content"))
    return {name: message[name] for name in _OF_CALLS if name in message} | {"content": used}


def _list_used(content: Any) -> list[Any]:
    """Return the parts of a message that use a tool, as Anthropic has them."""
    if not isinstance(content, list):
        return []
    return [each for each in list_objects(content) if each.get("type") == "tool_use"]


def _has_failed(message: Mapping[str, Any]) -> bool:
    return message.get("error") not in (None, False) or message.get("status") == "error"


def _read_call(call: Mapping[str, Any], failed: set[str]) -> dict[str, Any] | None:
    function = call.get("function")
    inside = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inside.get("name")
    if not isinstance(name, str):
        return None
    given = next((inside[key] for key in _ARGUMENTS if inside.get(key) is not None), None)
    args = parse_cell(given)
    found = {"tool_name": name, "success": str(call.get("id")) not in failed}
    if isinstance(args, dict):
        return {"tool_name": name, "args": args, "success": found["success"]}
    text = read_text(args)
    return {**found, "context": text} if text else found
