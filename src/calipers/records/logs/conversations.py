"""Questions, answers and calls of tools, in the many shapes that tools and providers write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from calipers.records.any_rows import parse_cell
from calipers.records.fields import load_json
from calipers.records.logs.parts import as_list, as_mapping, list_objects, read_text, spell

USER, ASSISTANT = "user", "assistant"

_ROLES = {
    **dict.fromkeys(("human", "humanmessage"), USER),
    **dict.fromkeys(("ai", "aimessage", "aimessagechunk", "model"), ASSISTANT),
}
_CONVERSATION = ("messages", "input_messages", "output_messages", "history", "prompt", "choices")
_USUAL = {
    USER: ("input", "question", "query", "prompt", "user_input", "text", "content", "request"),
    ASSISTANT: (
        *("output", "answer", "response", "final_output", "completion", "text", "content"),
        *("result", "generation", "prediction", "reply"),
    ),
}
_DEEPEST = 6  # objects around a text
_PAIR = 2
_SPEAKERS = ("user", "human", "assistant", "ai", "system")
_ARGUMENTS = ("arguments", "args", "input", "kwargs")
_OF_CALLS = ("tool_calls", "tool_call_id", "error", "status")


def read_said(value: Any, role: str) -> str | None:
    """Return the text that a role said last: of a text, a message, messages, or around these.

    >>> read_said({"messages": [{"type": "human", "content": "Hi"}]}, "user")
    'Hi'
    >>> read_said([["system", "Be brief."], ["user", "Hi"]], "user")
    'Hi'
    >>> read_said({"question": "2 + 2?"}, "user"), read_said({"a": 1, "b": 2}, "user")
    ('2 + 2?', '{"a": 1, "b": 2}')
    """
    return _find(value, role, _DEEPEST) or (spell(value) if value not in ({}, []) else None)


def _find(value: Any, role: str, depth: int) -> str | None:
    if isinstance(value, str):
        parsed = _parse(value)
        return value if parsed is None else (_find(parsed, role, depth - 1) if depth else value)
    if isinstance(value, list):
        return _find_in_list(value, role, depth)
    return _find_in_object(value, role, depth) if isinstance(value, dict) and depth else None


def _parse(text: str) -> Any:
    """Return the list or object that a text is the JSON of, or None."""
    return load_json(text) if text.lstrip()[:1] in ("{", "[") else None


def _find_in_list(values: list[Any], role: str, depth: int) -> str | None:
    messages = [_unwrap(each) for each in list_objects(list(map(_read_pair, values)))]
    if any(_name_role(each) for each in messages):
        said = (_read_content(each) for each in reversed(messages) if _name_role(each) == role)
        return next(filter(None, said), None)
    if not depth:
        return None
    found = (_find(each, role, depth - 1) for each in reversed(values))
    return (
        next(filter(None, found), None)
        if values and len(messages) == len(values)
        else (_find(values[0], role, depth - 1) if len(values) == 1 else read_text(values))
    )


def _read_pair(value: Any) -> Any:
    """Return the message that a pair of role and text is, as LangChain takes them."""
    is_pair = isinstance(value, list) and len(value) == _PAIR and isinstance(value[0], str)
    if not is_pair or value[0].lower() not in _SPEAKERS or not isinstance(value[1], str):
        return value
    return {"role": value[0], "content": value[1]}


def _find_in_object(value: Mapping[str, Any], role: str, depth: int) -> str | None:
    value = _unwrap(value)
    if _name_role(value):
        return _read_content(value)
    if "generations" in value:  # of LangChain: a list for each prompt
        return _find(value["generations"], role, depth - 1)
    if role == ASSISTANT and isinstance(value.get("message"), dict):
        return _find(value["message"], role, depth - 1) or read_text(value.get("text"))
    for name in _CONVERSATION:
        if isinstance(value.get(name), list) and (found := _find(value[name], role, depth - 1)):
            return found
    known = [name for name in _USUAL[role] if value.get(name) is not None]
    names = known or (list(value) if len(value) == 1 else [])
    return _find(value[names[0]], role, depth - 1) if names else None


def _unwrap(message: Any) -> Mapping[str, Any]:
    """Return the message inside what LangChain serialized: its data, or a constructor's."""
    found = as_mapping(message)
    if isinstance(found.get("data"), dict) and "type" in found and "content" not in found:
        return {"type": found["type"], **found["data"]}
    if isinstance(found.get("kwargs"), dict) and isinstance(found.get("id"), list):
        kind = str(found["id"][-1]) if found["id"] else ""
        return {"type": kind, **found["kwargs"]}
    return found


def _name_role(message: Mapping[str, Any]) -> str | None:
    if not {"content", "parts", "tool_calls"} & message.keys():
        return None
    role = message.get("role") or message.get("type")
    known = role.lower() if isinstance(role, str) else None
    if known is None or (known == "text" and "role" not in message):
        return None  # a part of a message
    return _ROLES.get(known, known)


def _read_content(message: Mapping[str, Any]) -> str | None:
    content = message.get("parts") or message.get("content")
    texts = [
        read_text(part)
        for part in (as_list(content) or [content])
        if as_mapping(part).get("type") not in ("tool_use", "tool_call", "reasoning", "thinking")
    ]
    return "\n".join(filter(None, texts)) or None


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
