"""Agents and apps of Google's Agent Development Kit, and the events that its runners yield."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import uuid4

from calipers.records.fields import name_finish_reason
from calipers.systems.agents.user_message import UserMessage, read_user_message
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Fault,
    Message,
    format_tool_reply,
    make_token_fields,
    make_tool_call,
)

NAME = "an agent or an app of Google's ADK"
_USER = "user"
_HANDOFF = "transfer_to_agent"


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the attributes of such an agent, or of an app of some."""
    if isinstance(candidate, type):
        return False
    return _is_app(candidate) or all(
        hasattr(candidate, name) for name in ("run_async", "sub_agents", "find_agent")
    )


def _is_app(candidate: Any) -> bool:
    return all(hasattr(candidate, name) for name in ("root_agent", "plugins", "model_fields_set"))


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the agent on what the user said, in a session that the conversation has for itself."""
    said = read_user_message(messages, NAME, is_first=call.state is None, system=False)
    runner, session = call.state or await _open_session(agent)
    content = _make_content(said)
    stream = runner.run_async(user_id=_USER, session_id=session, new_message=content)
    return _read_events([event async for event in stream], (runner, session))


async def _open_session(agent: Any) -> tuple[Any, str]:
    from google.adk.runners import InMemoryRunner  # noqa: PLC0415 (the user's library)

    runner = InMemoryRunner(app=agent) if _is_app(agent) else InMemoryRunner(agent)
    session = str(uuid4())
    await runner.session_service.create_session(
        app_name=runner.app_name, user_id=_USER, session_id=session
    )
    return runner, session


def _make_content(said: UserMessage) -> Any:
    from google.genai import types  # noqa: PLC0415 (the user's library)

    parts = [types.Part(text=said.text)]
    for url in said.images:
        head, _, content = url.partition(",")
        if not head.startswith("data:"):
            raise Fault("bad_request", f"{NAME} takes images from files, not by their addresses")
        kind = head.removeprefix("data:").partition(";")[0]
        parts.append(types.Part.from_bytes(data=b64decode(content), mime_type=kind))
    return types.Content(role=_USER, parts=parts)


def is_stream(messages: Sequence[Any]) -> bool:
    """Return True if messages are events of a runner."""
    offered = ("author", "content", "actions", "invocation_id")
    return all(hasattr(message, name) for message in messages for name in offered)


def read_stream(messages: Sequence[Any], prompt: str) -> AgentTurn:  # noqa: ARG001 (others use it)
    """Return the turn that the events of a run tell."""
    return _read_events(messages, None)


def _read_events(all_events: Sequence[Any], state: Any) -> AgentTurn:
    """Return the turn that events tell; pieces of what comes whole later are left out.

    Raises:
        Fault: An event is an error of the model, or no agent has said anything.
    """
    events = [event for event in all_events if not event.partial and event.author != _USER]
    for event in events:
        if event.error_code is not None and not _list_parts(event):
            raise Fault("bad_response", f"{event.error_code}: {event.error_message}")
    spoken = [event for event in events if _read_text(event)]
    if not spoken:
        raise Fault("bad_response", f"{NAME} ended without a text")
    handed = [
        {"from": event.author, "to": event.actions.transfer_to_agent, "type": "handoff"}
        for event in events
        if event.actions.transfer_to_agent
    ]
    return AgentTurn(
        output=_read_text(spoken[-1]),
        messages=[made for event in events for made in _list_messages(event)],
        state=state,
        usage=_count_tokens([each for event in events if (each := event.usage_metadata)]),
        finish_reason=name_finish_reason(getattr(spoken[-1].finish_reason, "name", None)),
        calls=_describe_calls(events),
        trace={
            "agent_interactions": handed,
            "agent_tasks": dict(Counter(by for by, _ in groupby(event.author for event in events))),
        },
    )


def _list_parts(event: Any) -> Sequence[Any]:
    return (event.content and event.content.parts) or ()


def _read_text(event: Any) -> str:
    """Return what an event says, without thoughts."""
    return "".join(part.text for part in _list_parts(event) if part.text and not part.thought)


def _list_messages(event: Any) -> Iterator[Message]:
    """Yield an event in OpenAI's shape."""
    parts, text = _list_parts(event), _read_text(event)
    calls = [
        make_tool_call(part.function_call.id, part.function_call.name, part.function_call.args)
        for part in parts
        if part.function_call
    ]
    if text or calls:
        made: Message = {"role": "assistant", "content": text or None}
        yield {**made, "tool_calls": calls} if calls else made
    for part in parts:
        if (told := part.function_response) is not None:
            reply = told.response or {}
            value = reply["result"] if reply.keys() == {"result"} else reply
            yield {
                "role": "tool",
                "tool_call_id": str(told.id),
                "content": format_tool_reply(value),
            }


def _describe_calls(events: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return of each call who made it, when, how long it took, and whether it succeeded."""
    about: dict[str, dict[str, Any]] = {}
    for event in events:
        for part in _list_parts(event):
            if (made := part.function_call) is not None:
                told = {"agent_id": event.author, "timestamp": event.timestamp}
                about[str(made.id)] = told | ({"is_handoff": True} if made.name == _HANDOFF else {})
            elif (reply := part.function_response) is not None:
                told = about.setdefault(str(reply.id), {})
                told["success"] = "error" not in (reply.response or {})
                if "timestamp" in told:
                    told["duration"] = max(0.0, event.timestamp - told["timestamp"])
    return about


def _count_tokens(used: Sequence[Any]) -> dict[str, int]:
    """Return the tokens of all requests; thoughts are counted apart where they are no replies."""

    def total(name: str) -> int:
        return sum(getattr(each, name, None) or 0 for each in used)

    asked, said = total("prompt_token_count"), total("candidates_token_count")
    thought, whole = total("thoughts_token_count"), total("total_token_count")
    apart = thought if whole >= asked + said + thought else 0
    return make_token_fields(
        asked,
        said + apart,
        read=total("cached_content_token_count"),
        reasoning=thought,
    )
