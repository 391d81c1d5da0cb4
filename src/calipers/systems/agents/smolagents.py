"""Agents of smolagents: asked by `run`, for a call of one is that of a managed agent.

An agent keeps the steps of its last run, so each conversation has a copy with steps of its own. The
copies of its managed agents report their steps too: what they use is in nobody else's.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from calipers.records.logs.parts import read_text
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
from calipers.systems.functions import run_in_thread

NAME = "an agent of smolagents"
_FINAL = "final_answer"  # the tool by which an agent ends
_OUT_OF_STEPS = "AgentMaxStepsError"
_Replies = dict[int, dict[Any, str]]


def is_agent(candidate: Any) -> bool:
    """Return True if an object has the attributes of such an agent."""
    offered = ("run", "write_memory_to_messages", "memory", "step_callbacks", "managed_agents")
    return not isinstance(candidate, type) and all(hasattr(candidate, name) for name in offered)


@dataclass(slots=True)
class _Steps:
    """Stands where an agent's callbacks are: passes each step on, and keeps it."""

    callbacks: Any
    name: str  # of the agent
    manager: str | None
    managed: Collection[str]
    kept: list[tuple[_Steps, Any]]  # of all agents, in the order of their ends

    def callback(self, step: Any, **more: Any) -> None:
        self.callbacks.callback(step, **more)
        self.kept.append((self, step))


@dataclass(slots=True)
class _OwnAgent:
    """The copy of an agent that one conversation has."""

    agent: Any
    kept: list[tuple[_Steps, Any]] = field(default_factory=list)

    def run(self, said: UserMessage) -> list[Any]:
        """Return what a run yields: calls, what tools said, steps, and at last the answer."""
        return list(self.agent.run(said.text, stream=True, reset=False, images=_open_images(said)))


async def take_turn(agent: Any, call: Call, messages: Sequence[Mapping[str, Any]]) -> AgentTurn:
    """Run a copy of the agent on what the user said, or go on with the one from before."""
    said = read_user_message(messages, NAME, is_first=call.state is None, system=True)
    own: _OwnAgent = call.state or _open_agent(agent, said.system)
    own.kept.clear()
    events, _ = await run_in_thread(lambda: own.run(said), copy_context())
    output = events[-1].output
    replies = _sort_replies(events)
    steps = [(by, step) for by, step in own.kept if hasattr(step, "timing")]
    answers = [by for by, step in own.kept if not hasattr(step, "timing")]
    return AgentTurn(
        output=str(output) if isinstance(output, str) else output,
        messages=list(_list_messages(own.agent, steps, replies, output)),
        state=own,
        usage=_count_tokens([step for _, step in steps]),
        finish_reason="max_turns" if _has_run_out(steps[-1][1]) else None,
        trace={
            "tool_calls": [
                {**made.describe(by.name), "context": call.prompt}
                for by, step in steps
                for made in _list_calls(step, replies.get(id(step), {}))
                if made.name not in (_FINAL, *by.managed)
            ],
            "agent_interactions": [
                {"from": by.manager, "to": by.name, "type": "task_request"}
                for by in answers
                if by.manager is not None
            ],
            "agent_tasks": dict(Counter(by.name for by in answers)),
        },
    )


def _open_agent(agent: Any, system: str | None) -> _OwnAgent:
    """Return a copy of an agent, with the suite's instructions after its own."""
    own = _OwnAgent(agent)
    own.agent = _copy_agent(agent, None, own.kept)
    if system is not None:
        own.agent.instructions = "\n".join(filter(None, (own.agent.instructions, system)))
    return own


def _copy_agent(agent: Any, manager: str | None, kept: list[tuple[_Steps, Any]]) -> Any:
    """Return an agent of the same parts with steps, variables and an interpreter of its own."""
    own, name = copy(agent), agent.name or type(agent).__name__
    own.memory, own.state = copy(agent.memory), dict(agent.state)
    own.memory.steps = []
    own.step_callbacks = _Steps(agent.step_callbacks, name, manager, agent.managed_agents, kept)
    own.managed_agents = {
        key: _copy_agent(managed, name, kept) for key, managed in agent.managed_agents.items()
    }
    if getattr(agent, "executor_type", None) == "local":  # a sandbox elsewhere serves all
        own.python_executor = own.create_python_executor()
    return own


def _open_images(said: UserMessage) -> list[Any] | None:
    if not said.images:
        return None
    if not all(url.startswith("data:") for url in said.images):
        raise Fault("bad_request", f"{NAME} takes images from files, and none by their addresses")
    from PIL import Image  # noqa: PLC0415 (the library's own dependency)

    return [Image.open(BytesIO(b64decode(url.partition(",")[2]))) for url in said.images]


def _sort_replies(events: Sequence[Any]) -> _Replies:
    """Return what tools said, by the step that comes after them and by the ids of the calls."""
    replies: _Replies = {}
    said: dict[Any, str] = {}
    for event in events:
        if hasattr(event, "observation"):
            said[event.id] = event.observation
        elif hasattr(event, "timing"):
            replies[id(event)], said = said, {}
    return replies


@dataclass(frozen=True, slots=True)
class _ToolCall:
    """A call of a tool, and what came back."""

    number: Any
    name: str
    arguments: Any
    reply: str
    success: bool

    def describe(self, agent: str) -> dict[str, Any]:
        about = {"success": self.success, "agent_id": agent}
        return {"tool_name": self.name, "args": self.arguments, **about}


def _list_calls(step: Any, replies: Mapping[Any, str]) -> Iterator[_ToolCall]:
    """Yield the calls of a step; one that failed has them in the model's message alone."""
    calls, error = getattr(step, "tool_calls", None), getattr(step, "error", None)
    if calls is None:
        asked = getattr(_get_reply(step), "tool_calls", None) or ()
        calls = [(each.id, each.function) for each in asked]
    else:
        calls = [(each.id, each) for each in calls]
    for number, made in calls:
        told = replies.get(number) or getattr(step, "observations", None) or ""
        success = error is None or number in replies
        reply = told if success else f"{told}\n{error}".strip()
        yield _ToolCall(number, made.name, made.arguments, reply, success)


def _list_messages(
    agent: Any, steps: Sequence[tuple[_Steps, Any]], replies: _Replies, output: Any
) -> Iterator[Message]:
    """Yield the messages of the agent itself in OpenAI's shape, the answer at the end."""
    for by, step in steps:
        calls = [
            each for each in _list_calls(step, replies.get(id(step), {})) if each.name != _FINAL
        ]
        if by is not agent.step_callbacks or not calls:
            continue
        made = [make_tool_call(each.number, each.name, each.arguments) for each in calls]
        text = read_text(getattr(step, "model_output", None))
        yield {"role": "assistant", "content": text or None, "tool_calls": made}
        for each in calls:
            yield {"role": "tool", "tool_call_id": str(each.number), "content": each.reply}
    yield {"role": "assistant", "content": format_tool_reply(output)}


def _count_tokens(steps: Sequence[Any]) -> dict[str, int]:
    """Return the tokens of all agents' steps; none where a reply of the model has no count."""
    replied = [step for step in steps if step.token_usage is not None or _get_reply(step)]
    used = [step.token_usage for step in replied]
    if None in used:
        return {}
    raw = [getattr(getattr(_get_reply(step), "raw", None), "usage", None) for step in replied]

    def total(details: str, name: str) -> int:
        return sum(getattr(getattr(usage, details, None), name, None) or 0 for usage in raw)

    return make_token_fields(
        sum(each.input_tokens for each in used),
        sum(each.output_tokens for each in used),
        read=total("prompt_tokens_details", "cached_tokens"),
        reasoning=total("completion_tokens_details", "reasoning_tokens"),
    )


def _get_reply(step: Any) -> Any:
    return getattr(step, "model_output_message", None)


def _has_run_out(step: Any) -> bool:
    return type(getattr(step, "error", None)).__name__ == _OUT_OF_STEPS
