"""Graphs of LangGraph, compiled: those whose state has messages, and those that answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from calipers.records.fields import name_finish_reason
from calipers.records.logs.parts import read_text
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Fault,
    Message,
    format_tool_reply,
    make_token_fields,
    make_tool_call,
)

NAME = "a compiled LangGraph graph"
_MESSAGES = "messages"


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the methods of a compiled graph."""
    offered = ("ainvoke", "get_graph", "get_state", "channels")
    return not isinstance(candidate, type) and all(hasattr(candidate, method) for method in offered)


def is_not_compiled(candidate: Any) -> bool:
    """Return True if an object is a graph that was not compiled."""
    return all(hasattr(candidate, method) for method in ("compile", "add_node", "add_edge"))


async def take_turn(graph: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the graph on what the user said, or on the fields of the record that its state has."""
    fields = graph.channels  # the fields of its state, and more
    if _MESSAGES not in fields:
        return await _run_graph(graph, call, fields)
    thread, before = call.state or (str(uuid4()), [])
    number = str(uuid4())
    user = {"role": "user", "content": messages[-1].get("content"), "id": number}
    if call.state is None:
        new: list[Any] = [*(dict(message) for message in messages[:-1]), user]
    else:
        new = [user]
    asked = new if getattr(graph, "checkpointer", None) else [*before, *new]
    result = await graph.ainvoke({_MESSAGES: asked}, _make_config(thread))
    every = list(result[_MESSAGES])
    known = {message.id for message in before}
    at = next((at for at, message in enumerate(every) if message.id == number), -1)
    turn = [
        message
        for message in every[at + 1 :]
        if message.id not in known and message.type != "human"
    ]
    replies = [message for message in turn if message.type == "ai"]
    if not replies:
        raise Fault("bad_response", "the graph ended without a message of the assistant")
    return AgentTurn(
        output=read_text(replies[-1].content) or "",
        messages=[_read_message(message) for message in turn],
        state=(thread, every),
        usage=_read_usage(replies),
        finish_reason=name_finish_reason(replies[-1].response_metadata.get("finish_reason")),
        calls=dict(_describe_calls(turn)),
    )


async def _run_graph(graph: Any, call: Call, fields: Mapping[str, Any]) -> AgentTurn:
    """Run a graph without messages: it gets the fields of its state, and has to set `answer`."""
    given = {name: call.record[name] for name in fields if name in call.record}
    result = await graph.ainvoke(given, _make_config(str(uuid4())))
    if not isinstance(result, Mapping) or result.get("answer") is None:
        raise Fault("bad_response", "the graph's state has neither messages nor an answer")
    reply = {"role": "assistant", "content": format_tool_reply(result["answer"])}
    return AgentTurn(output=result["answer"], messages=[reply], state=None)


def _make_config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


def _read_message(message: Any) -> Message:
    if message.type == "tool":
        content = read_text(message.content) or ""
        return {"role": "tool", "tool_call_id": str(message.tool_call_id), "content": content}
    if message.type != "ai":
        return {"role": "system", "content": read_text(message.content)}
    made: Message = {"role": "assistant", "content": read_text(message.content) or None}
    calls = [
        make_tool_call(tool_call["id"], tool_call["name"], tool_call["args"])
        for tool_call in message.tool_calls
    ]
    return {**made, "tool_calls": calls} if calls else made


def _describe_calls(messages: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield of each call whether it succeeded, and which agent made it where that has a name."""
    failed = {
        str(message.tool_call_id)
        for message in messages
        if message.type == "tool" and message.status == "error"
    }
    for message in messages:
        for made in message.tool_calls if message.type == "ai" else ():
            about: dict[str, Any] = {"success": str(made["id"]) not in failed}
            yield str(made["id"]), {**about, **({"agent_id": message.name} if message.name else {})}


def _read_usage(replies: Sequence[Any]) -> dict[str, int]:
    used = [reply.usage_metadata or {} for reply in replies]

    def total(name: str, part: str | None = None) -> int:
        within = (usage if part is None else usage.get(part) or {} for usage in used)
        return sum(int(usage.get(name) or 0) for usage in within)

    return make_token_fields(
        total("input_tokens"),
        total("output_tokens"),
        read=total("cache_read", "input_token_details"),
        written=total("cache_creation", "input_token_details"),
        reasoning=total("reasoning", "output_token_details"),
    )
