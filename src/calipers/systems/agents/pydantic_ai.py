"""Agents of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Message,
    format_tool_reply,
    make_token_fields,
    make_tool_call,
)

NAME = "a pydantic-ai Agent"


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the methods of such an agent."""
    offered = ("run", "run_sync", "run_stream", "iter", "override")
    return not isinstance(candidate, type) and all(
        hasattr(candidate, attribute) for attribute in offered
    )


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the agent on what the user said last, with all that was said before."""
    from calipers.systems.agents.pydantic_messages import convert_content, convert_messages  # noqa: PLC0415

    history = call.state
    asked: dict[str, Any] = {}
    if history is None:
        instructions = [
            message["content"] for message in messages[:-1] if message.get("role") == "system"
        ]
        history = convert_messages(
            [message for message in messages[:-1] if message.get("role") != "system"]
        )
        asked = (
            {"instructions": "\n".join(map(format_tool_reply, instructions))}
            if instructions
            else {}
        )
    result = await agent.run(
        convert_content(messages[-1].get("content")), message_history=history or None, **asked
    )
    new = list(result.new_messages())
    usage = result.usage
    if not hasattr(usage, "input_tokens"):  # before 2.0 it was a method
        usage = usage()
    ended = [message.finish_reason for message in new if message.kind == "response"]
    return AgentTurn(
        output=result.output,
        messages=[message for new_message in new for message in _list_messages(new_message)],
        state=list(result.all_messages()),
        usage=make_token_fields(
            usage.input_tokens,
            usage.output_tokens,
            read=usage.cache_read_tokens,
            written=usage.cache_write_tokens,
            reasoning=(usage.details or {}).get("reasoning_tokens"),
        ),
        finish_reason=name_finish_reason(ended[-1] if ended else None),
        calls=_describe_calls(new),
    )


def _list_messages(message: Any) -> list[Message]:
    """Return a message in OpenAI's shape; what the user and the system said is known."""
    if message.kind == "response":
        texts = [part.content for part in message.parts if part.part_kind == "text"]
        calls = [
            make_tool_call(part.tool_call_id, part.tool_name, part.args_as_json_str())
            for part in message.parts
            if part.part_kind == "tool-call"
        ]
        made: Message = {"role": "assistant", "content": "".join(texts) or None}
        return [{**made, "tool_calls": calls} if calls else made]
    return [
        {"role": "tool", "tool_call_id": part.tool_call_id, "content": _read_reply(part)}
        for part in message.parts
        if _is_return(part)
    ]


def _is_return(part: Any) -> bool:
    """Return True if a part is a tool's result: a value, or a request to retry."""
    is_retry = part.part_kind == "retry-prompt" and part.tool_name is not None
    return is_retry or part.part_kind == "tool-return"


def _read_reply(part: Any) -> str:
    is_retry = part.part_kind == "retry-prompt"
    return str(part.model_response() if is_retry else part.model_response_str())


def _describe_calls(messages: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return when each tool was called, how long it took, and whether it succeeded."""
    about: dict[str, dict[str, Any]] = {}
    asked: Any = None
    for message in messages:
        if message.kind == "response":
            asked = message.timestamp
            continue
        for part in filter(_is_return, message.parts):
            has_succeeded = str(getattr(part, "outcome", "success")) == "success"
            is_good = part.part_kind == "tool-return" and has_succeeded
            about[part.tool_call_id] = {"success": is_good}
            if asked is not None:
                seconds = max(0.0, (part.timestamp - asked).total_seconds())
                about[part.tool_call_id] |= {"duration": seconds, "timestamp": asked.timestamp()}
    return about
