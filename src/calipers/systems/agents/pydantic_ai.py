"""Agents of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.systems.agents.turn import AgentTurn, Message, as_text, count_tokens, make_tool_call
from calipers.systems.calls import Call

NAME = "a pydantic-ai Agent"


def is_agent(found: Any) -> bool:
    """Say whether an object has the methods of such an agent."""
    offered = ("run", "run_sync", "run_stream", "iter", "override")
    return not isinstance(found, type) and all(hasattr(found, each) for each in offered)


async def take_turn(agent: Any, call: Call, said: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the agent on what the user said last, with all that was said before."""
    from calipers.systems.pydantic_messages import convert_content, from_openai  # noqa: PLC0415

    history = call.state
    asked: dict[str, Any] = {}
    if history is None:
        told = [each["content"] for each in said[:-1] if each.get("role") == "system"]
        history = from_openai([each for each in said[:-1] if each.get("role") != "system"])
        asked = {"instructions": "\n".join(map(as_text, told))} if told else {}
    result = await agent.run(
        convert_content(said[-1].get("content")), message_history=history or None, **asked
    )
    new = list(result.new_messages())
    usage = result.usage() if callable(result.usage) else result.usage
    ended = [each.finish_reason for each in new if each.kind == "response"]
    return AgentTurn(
        output=result.output,
        messages=[message for each in new for message in _list_messages(each)],
        state=list(result.all_messages()),
        usage=count_tokens(
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
    """Say whether a part is a tool's result: a value, or a request to retry."""
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
