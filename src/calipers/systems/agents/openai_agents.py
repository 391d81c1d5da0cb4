"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calipers.records.logs.parts import read_text
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Message,
    format_tool_reply,
    make_token_fields,
    make_tool_call,
)
from calipers.systems.images import get_url

NAME = "an Agent of the OpenAI Agents SDK"
_FAILED = "An error occurred while running the tool"  # what the SDK tells the model by default
_CALLS = ("tool_call_item", "handoff_call_item")
_OUTPUTS = ("tool_call_output_item", "handoff_output_item")


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the attributes of such an agent."""
    offered = ("instructions", "handoffs", "tools", "input_guardrails", "output_type")
    is_one = not isinstance(candidate, type) and all(
        hasattr(candidate, attribute) for attribute in offered
    )
    return is_one and _find_runner(candidate) is not None


def _find_runner(agent: Any) -> Any:
    """Return the class that runs such agents: their own package has it loaded."""
    packages = (sys.modules.get(base.__module__.partition(".")[0]) for base in type(agent).__mro__)
    runners = (getattr(package, "Runner", None) for package in packages)
    return next(filter(None, runners), None)


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the agent, or the one that took over from it, on all that was said."""
    current, before = call.state or (agent, [_make_item(message) for message in messages[:-1]])
    result = await _find_runner(agent).run(current, [*before, _make_item(messages[-1])])
    usage = result.context_wrapper.usage
    taken = [item for item in result.new_items if item.type == "handoff_output_item"]
    agents = [current.name, *(hand_off.target_agent.name for hand_off in taken)]
    handed = [
        {"from": hand_off.source_agent.name, "to": hand_off.target_agent.name, "type": "handoff"}
        for hand_off in taken
    ]
    return AgentTurn(
        output=result.final_output,
        messages=[made for item in result.new_items if (made := _read_message(item)) is not None],
        state=(result.last_agent, result.to_input_list()),
        usage=make_token_fields(
            usage.input_tokens,
            usage.output_tokens,
            read=getattr(usage.input_tokens_details, "cached_tokens", 0),
            reasoning=getattr(usage.output_tokens_details, "reasoning_tokens", 0),
        ),
        calls=_describe_calls(result.new_items),
        trace={"agent_interactions": handed, "agent_tasks": dict(Counter(agents))},
    )


def _make_item(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as the SDK takes it; of a tool's only the text goes on."""
    content, role = message.get("content"), message.get("role")
    if isinstance(content, list) and role == "user":
        content = [_make_part(part) for part in content]
    return {"role": "user" if role == "tool" else role, "content": content or ""}


def _make_part(part: Any) -> dict[str, Any]:
    if part.get("type") == "image_url":
        return {"type": "input_image", "image_url": get_url(part), "detail": "auto"}
    return {"type": "input_text", "text": str(part.get("text", ""))}


def _read_message(item: Any) -> Message | None:
    raw = item.raw_item
    if item.type == "message_output_item":
        parts = [_make_plain(part) for part in raw.content]
        return {"role": "assistant", "content": read_text(parts) or None}
    number = _get_first(raw, "call_id", "id")
    if item.type in _CALLS:
        name, arguments = _get_first(raw, "name", "type"), _get_first(raw, "arguments") or "{}"
        calls = [make_tool_call(number, name, arguments)]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if item.type in _OUTPUTS:
        content = format_tool_reply(_get_first(raw, "output"))
        return {"role": "tool", "tool_call_id": str(number), "content": content}
    return None


def _describe_calls(items: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return of each call who made it, and whether it succeeded as far as the SDK says."""
    about: dict[str, dict[str, Any]] = {}
    for item in items:
        number = str(_get_first(item.raw_item, "call_id", "id"))
        if item.type == "handoff_call_item":
            about[number] = {"is_handoff": True}
        elif item.type == "tool_call_item":
            about[number] = {"agent_id": item.agent.name, "success": True}
        elif item.type == "tool_call_output_item":
            output = format_tool_reply(_get_first(item.raw_item, "output"))
            about.setdefault(number, {})["success"] = not output.startswith(_FAILED)
    return about


def _get_first(raw: Any, *names: str) -> Any:
    """Return the first of these that an item has, which is an object or a mapping."""
    values = (raw.get(e) if isinstance(raw, Mapping) else getattr(raw, e, None) for e in names)
    return next((value for value in values if value is not None), None)


def _make_plain(part: Any) -> Any:
    return part.model_dump() if hasattr(part, "model_dump") else part
