"""Graphs of LangGraph, compiled: those whose state has messages, and those that answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from calipers.records.fields import name_finish_reason
from calipers.records.logs.parts import read_text
from calipers.systems.agents.turn import AgentTurn, Message, as_text, count_tokens, make_tool_call
from calipers.systems.calls import Call, Fault

NAME = "a compiled LangGraph graph"
_MESSAGES = "messages"


def is_agent(found: Any) -> bool:
    """Say whether an object has the methods of a compiled graph."""
    offered = ("ainvoke", "get_graph", "get_state", "channels")
    return not isinstance(found, type) and all(hasattr(found, each) for each in offered)


def is_not_compiled(found: Any) -> bool:
    """Say whether an object is a graph that was not compiled."""
    return all(hasattr(found, each) for each in ("compile", "add_node", "add_edge"))


async def take_turn(graph: Any, call: Call, said: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run the graph on what the user said, or on the fields of the record that its state has."""
    fields = graph.channels  # the fields of its state, and more
    if _MESSAGES not in fields:
        return await _run_graph(graph, call, fields)
    thread, before = call.state or (str(uuid4()), [])
    number = str(uuid4())
    user = {"role": "user", "content": said[-1].get("content"), "id": number}
    if call.state is None:
        new: list[Any] = [*(dict(each) for each in said[:-1]), user]
    else:
        new = [user]
    asked = new if getattr(graph, "checkpointer", None) else [*before, *new]
    result = await graph.ainvoke({_MESSAGES: asked}, _make_config(thread))
    every = list(result[_MESSAGES])
    known = {each.id for each in before}
    at = next((at for at, each in enumerate(every) if each.id == number), -1)
    turn = [each for each in every[at + 1 :] if each.id not in known and each.type != "human"]
    replies = [each for each in turn if each.type == "ai"]
    if not replies:
        raise Fault("bad_response", "the graph ended without a message of the assistant")
    return AgentTurn(
        output=read_text(replies[-1].content) or "",
        messages=[_read_message(each) for each in turn],
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
    reply = {"role": "assistant", "content": as_text(result["answer"])}
    return AgentTurn(output=result["answer"], messages=[reply], state=None)


def _make_config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


def _read_message(message: Any) -> Message:
    if message.type == "tool":
        said = read_text(message.content) or ""
        return {"role": "tool", "tool_call_id": str(message.tool_call_id), "content": said}
    if message.type != "ai":
        return {"role": "system", "content": read_text(message.content)}
    made: Message = {"role": "assistant", "content": read_text(message.content) or None}
    calls = [make_tool_call(each["id"], each["name"], each["args"]) for each in message.tool_calls]
    return {**made, "tool_calls": calls} if calls else made


def _describe_calls(messages: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield of each call whether it succeeded, and which agent made it where that has a name."""
    failed = {
        str(each.tool_call_id)
        for each in messages
        if each.type == "tool" and each.status == "error"
    }
    for each in messages:
        for made in each.tool_calls if each.type == "ai" else ():
            about: dict[str, Any] = {"success": str(made["id"]) not in failed}
            yield str(made["id"]), {**about, **({"agent_id": each.name} if each.name else {})}


def _read_usage(replies: Sequence[Any]) -> dict[str, int]:
    used = [each.usage_metadata or {} for each in replies]

    def total(name: str, part: str | None = None) -> int:
        within = (each if part is None else each.get(part) or {} for each in used)
        return sum(int(each.get(name) or 0) for each in within)

    return count_tokens(
        total("input_tokens"),
        total("output_tokens"),
        read=total("cache_read", "input_token_details"),
        written=total("cache_creation", "input_token_details"),
        reasoning=total("reasoning", "output_token_details"),
    )
