"""Agents and teams of AutoGen's AgentChat.

Each keeps its conversation and cannot be copied, so that a function makes one for each task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calipers.systems.agents.user_message import UserMessage, read_user_message
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Fault,
    Message,
    make_token_fields,
    make_tool_call,
)

NAME = "an agent or a team of AutoGen"
MAKER = "def agent(): return AssistantAgent(…)"
_REQUEST, _EXECUTION = "ToolCallRequestEvent", "ToolCallExecutionEvent"
_HANDOFF = "HandoffMessage"


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the methods of such an agent or team."""
    offered = ("run", "run_stream", "save_state", "load_state", "component_type")
    return not isinstance(candidate, type) and all(hasattr(candidate, name) for name in offered)


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the agent on what the user said; it remembers what was before."""
    said = read_user_message(messages, NAME, is_first=call.state is None, system=False)
    result = await agent.run(task=_make_task(said))
    return read_result(result.messages, state=agent)


def _make_task(said: UserMessage) -> Any:
    if not said.images:
        return said.text
    from autogen_agentchat.messages import MultiModalMessage  # noqa: PLC0415 (the user's library)
    from autogen_core import Image  # noqa: PLC0415

    if not all(url.startswith("data:") for url in said.images):
        raise Fault("bad_request", f"{NAME} takes images from files, and none by their addresses")
    images = [Image.from_uri(url) for url in said.images]
    return MultiModalMessage(content=[said.text, *images], source="user")


def is_stream(messages: Sequence[Any]) -> bool:
    """Return True if messages are those of `run_stream`, with its result at the end."""
    return hasattr(messages[-1], "messages") and hasattr(messages[-1], "stop_reason")


def read_stream(messages: Sequence[Any], prompt: str) -> AgentTurn:  # noqa: ARG001 (as others)
    """Return the turn that a stream tells."""
    return read_result(messages[-1].messages, state=None)


def read_result(said: Sequence[Any], state: Any) -> AgentTurn:
    """Return the turn that the messages of a result tell.

    Raises:
        Fault: No agent has said anything.
    """
    turn = [message for message in said if message.source != "user"]
    spoken = [message for message in turn if hasattr(message, "to_model_message")]
    if not spoken:
        raise Fault("bad_response", f"{NAME} ended without a message")
    used = [message.models_usage for message in turn if message.models_usage is not None]
    content = spoken[-1].content
    handoffs = [message for message in spoken if message.type == _HANDOFF]
    return AgentTurn(
        output=content if hasattr(content, "model_dump") else spoken[-1].to_text(),
        messages=[made for message in turn for made in _list_messages(message)],
        state=state,
        usage=make_token_fields(
            sum(usage.prompt_tokens for usage in used),
            sum(usage.completion_tokens for usage in used),
        ),
        calls=_describe_calls(turn, {f"transfer_to_{each.target}" for each in handoffs}),
        trace={
            "agent_interactions": [
                {"from": each.source, "to": each.target, "type": "handoff"} for each in handoffs
            ],
            "agent_tasks": dict(Counter(message.source for message in spoken)),
        },
    )


def _list_messages(message: Any) -> list[Message]:
    """Return a message in OpenAI's shape; thoughts and notices are none."""
    if message.type == _REQUEST:
        calls = [make_tool_call(each.id, each.name, each.arguments) for each in message.content]
        return [{"role": "assistant", "content": None, "tool_calls": calls}]
    if message.type == _EXECUTION:
        return [
            {"role": "tool", "tool_call_id": str(each.call_id), "content": str(each.content)}
            for each in message.content
        ]
    if hasattr(message, "to_model_message"):
        return [{"role": "assistant", "content": message.to_text()}]
    return []


def _describe_calls(turn: Sequence[Any], handoffs: set[str]) -> dict[str, dict[str, Any]]:
    """Return of each call who made it, when, how long it took, and whether it succeeded."""
    about: dict[str, dict[str, Any]] = {}
    asked: dict[str, Any] = {}
    for message in turn:
        if message.type == _REQUEST:
            for each in message.content:
                asked[each.id] = message.created_at
                is_handoff = {"is_handoff": True} if each.name in handoffs else {}
                about[str(each.id)] = {"agent_id": message.source, **is_handoff}
        elif message.type == _EXECUTION:
            for each in message.content:
                told = about.setdefault(str(each.call_id), {})
                told["success"] = each.is_error is not True
                if (begun := asked.get(each.call_id)) is not None:
                    seconds = max(0.0, (message.created_at - begun).total_seconds())
                    told |= {"duration": seconds, "timestamp": begun.timestamp()}
    return about
