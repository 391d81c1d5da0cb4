"""Streams of messages as the Claude Agent SDK yields them, and the lines that Claude Code prints.

A message of the SDK holds what a line of Claude Code's stream does; both are read as its log is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calipers.records.fields import BILLED_TOKENS
from calipers.records.logs.claude_code import read_messages
from calipers.records.logs.parts import as_mapping, list_objects, read_text
from calipers.systems.calls import AgentTurn, Fault, Message, format_tool_reply, make_tool_call
from calipers.systems.http import make_status_fault

_USED = (*BILLED_TOKENS, "cost_usd", "files_changed")
_KINDS = {"rate_limit": 429, "overloaded": 529, "server_error": 500, "authentication_failed": 401}
_RESULT = ("subtype", "duration_ms", "is_error", "num_turns", "session_id", "stop_reason")
_TOTALS = ("total_cost_usd", "usage", "result", "structured_output", "api_error_status")


def is_stream(messages: Sequence[Any]) -> bool:
    """Return True if a result or a reply of Claude is among the messages."""
    return any(_make_line(message).get("type") in ("assistant", "result") for message in messages)


def read_stream(messages: Sequence[Any], prompt: str) -> AgentTurn:
    """Return the turn that the messages tell.

    Raises:
        Fault: The session ended by an error; its kind is that of the API's status where one is
            known.
    """
    lines = [line for message in messages if (line := _make_line(message))]
    told = read_messages(lines)
    usage = {name: told[name] for name in _USED if told.get(name) is not None}
    result = next((line for line in lines if line.get("type") == "result"), {})
    if told["error"] is not None:
        raise _make_fault(lines, result, told["error"], usage)
    structured = result.get("structured_output")
    trace = told["trace"]
    return AgentTurn(
        output=told["answer"] if structured is None else structured,
        messages=list(_list_messages(lines)),
        state=None,
        usage=usage,
        finish_reason=told["finish_reason"],
        trace={
            **trace,
            "tool_calls": [{**made, "context": prompt} for made in trace["tool_calls"]],
        },
    )


def _make_fault(
    lines: Sequence[Mapping[str, Any]],
    result: Mapping[str, Any],
    problem: str,
    usage: Mapping[str, Any],
) -> Fault:
    kinds = [line.get("error") for line in lines if line.get("type") == "assistant"]
    known = [_KINDS[kind] for kind in kinds if kind in _KINDS]
    status = result.get("api_error_status") or next(iter(known), None)
    if status is None:
        return Fault("exception", problem, usage=usage)
    fault = make_status_fault(status, {}, problem)
    fault.usage = usage
    return fault


def _make_line(message: Any) -> dict[str, Any]:
    """Return a message as a line of Claude Code's stream; an empty one tells nothing."""
    if isinstance(message, dict):
        return message
    if hasattr(message, "num_turns") and hasattr(message, "is_error"):
        told = {name: getattr(message, name, None) for name in (*_RESULT, *_TOTALS)}
        models = getattr(message, "model_usage", None)
        return {"type": "result", **told, "modelUsage": models}
    if hasattr(message, "subtype") and isinstance(getattr(message, "data", None), dict):
        data: dict[str, Any] = message.data
        return data
    if not hasattr(message, "content") or not hasattr(message, "parent_tool_use_id"):
        return {}
    content = message.content
    if not isinstance(content, str):
        content = [_make_block(block) for block in content]
    about = {"parent_tool_use_id": message.parent_tool_use_id}
    if not hasattr(message, "model"):
        return {"type": "user", "message": {"content": content}, **about}
    said = {
        "id": getattr(message, "message_id", None),
        "model": message.model,
        "content": content,
        "usage": getattr(message, "usage", None),
        "stop_reason": getattr(message, "stop_reason", None),
    }
    about |= {"error": getattr(message, "error", None)}
    return {"type": "assistant", "message": said, **about}


def _make_block(block: Any) -> dict[str, Any]:
    for kind, mark, names in (
        ("text", "text", ("text",)),
        ("thinking", "thinking", ("thinking",)),
        ("tool_use", "input", ("id", "name", "input")),
        ("tool_result", "tool_use_id", ("tool_use_id", "content", "is_error")),
    ):
        if hasattr(block, mark):
            return {"type": kind, **{name: getattr(block, name, None) for name in names}}
    return {}


def _list_messages(lines: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    """Yield the messages of the session itself in OpenAI's shape, without those of its agents."""
    for line in lines:
        parts = list(list_objects(as_mapping(line.get("message")).get("content")))
        if line.get("parent_tool_use_id") is not None:
            continue
        if line.get("type") == "assistant":
            texts = [str(part.get("text")) for part in parts if part.get("type") == "text"]
            calls = [
                make_tool_call(part.get("id"), part.get("name"), part.get("input"))
                for part in parts
                if part.get("type") == "tool_use"
            ]
            made: Message = {"role": "assistant", "content": "".join(texts) or None}
            if texts or calls:
                yield {**made, "tool_calls": calls} if calls else made
        elif line.get("type") == "user":
            for part in parts:
                if part.get("type") == "tool_result":
                    told = part.get("content")
                    text = read_text(told) or ("" if told is None else format_tool_reply(told))
                    number = str(part.get("tool_use_id"))
                    yield {"role": "tool", "tool_call_id": number, "content": text}
