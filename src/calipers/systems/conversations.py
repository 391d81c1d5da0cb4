"""Several turns with a system, and tools that it may call, as one call.

A model is asked, its tool calls are answered, and it is asked again until it calls no more; then
comes the next turn of the user, which a task has written down or a model plays. Tokens and traces
are added up, and every message is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter, time
from typing import Any

from calipers.records.completing import TRACE, TRACE_PARTS, complete_row
from calipers.support.functions import Function
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.agents.turn import make_tool_call
from calipers.systems.calls import Call, Fault, Reply, System, ToolCall, add_usage, time_fields
from calipers.systems.simulated_user import SIMULATED_USER, SimulatedUser, UserPart

_MAX_TURNS = "max_turns"  # the finish_reason where a model was not done by then
_MOST = 100_000  # characters of a tool's reply
_LISTS = ("observed_behaviors", "violations")  # what was seen in any turn was seen

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call: a function, or a fixed reply."""

    function: Function | None
    reply: str | None

    async def __call__(self, args: Mapping[str, Any]) -> str:
        """Return what the tool says; whatever its function raises comes through."""
        if self.function is None:
            return self.reply or ""
        if inspect.iscoroutinefunction(self.function):
            found = await self.function(**args)
        else:
            found = await asyncio.to_thread(self.function, **args)
        text = found if isinstance(found, str) else json.dumps(found, default=str)
        return text[:_MOST]


@dataclass(slots=True)
class _Told:
    """The conversation so far, and its usage."""

    messages: list[Message]
    sums: dict[str, float] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)  # of all turns: traces, behaviors
    state: Any = None  # of an agent

    def add(self, reply: Reply) -> None:
        self.messages += map(dict, reply.messages or [_make_assistant_message(reply)])
        self.state = reply.state
        add_usage(self.sums, reply.fields)
        if (trace := _read_trace(reply.fields)) is not None:
            self.fields[TRACE] = _join_traces(self.fields.get(TRACE, {}), trace)
        for name in _LISTS:
            if (found := reply.fields.get(name)) is not None:
                self.fields[name] = _unite_names(self.fields.get(name), found)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system in a conversation; calls without turns, messages and tools are passed on."""

    system: System
    tools: Mapping[str, Tool]
    max_turns: int
    user: SimulatedUser | None

    async def __call__(self, call: Call) -> Reply:
        """Return the last reply, with all messages, the traces and what the user was like.

        Raises:
            Fault: The system or the simulated user failed; `usage` has what was billed until then.
        """
        if not (call.messages or self.tools or call.is_open_ended):
            reply = await self.system(call)
            if not reply.messages:
                return reply
            return replace(reply, messages=(*_open_messages(call), *reply.messages))
        told, began = _Told(_open_messages(call)), perf_counter()
        part = None if call.user is None or self.user is None else UserPart(self.user, call.user)
        try:
            reply = await self._play_turns(call, told, part)
        except Fault as fault:
            add_usage(told.sums, fault.usage)
            user = {} if part is None else {SIMULATED_USER: part.to_dict()}
            fault.usage = {**told.sums, **user}
            raise
        in_trace = TRACE_PARTS if TRACE in told.fields else ()
        fields = {name: each for name, each in reply.fields.items() if name not in in_trace}
        fields |= {**told.fields, **told.sums}
        if self.tools:
            fields[TRACE] = {"tool_calls": told.calls}
        if part is not None:
            seconds = perf_counter() - began - part.seconds
            fields = {**time_fields(seconds), **fields, SIMULATED_USER: part.to_dict()}
        return replace(reply, fields=fields, messages=tuple(told.messages))

    async def _play_turns(self, call: Call, told: _Told, part: UserPart | None) -> Reply:
        """Ask for a reply to what was said already, then to each turn of the user."""
        reply: Reply | None = None
        left = self.max_turns
        if told.messages and told.messages[-1].get("role") in ("user", "tool"):
            reply, left = await self._ask_until_answered(call, told, left)
        async for turn in _take_turns(call, told, part):
            if reply is not None and left <= 0:
                if part is not None:
                    part.turns -= 1  # nobody has heard it
                return _cut_short(reply)
            told.messages.append(_make_user_message(turn))
            reply, left = await self._ask_until_answered(call, told, left)
        if reply is None:
            raise Fault("bad_request", "the conversation has no message of the user")
        return reply

    async def _ask_until_answered(self, call: Call, told: _Told, left: int) -> tuple[Reply, int]:
        """Ask until no more tools are called; return the reply and the turns that are left."""
        while True:
            now = [dict(each) for each in told.messages]
            said: dict[str, Any] = {"prompt": _find_last_text(now), "messages": now}
            record = {**call.record, **said}
            reply = await self.system(
                replace(call, **said, turns=(), state=told.state, record=record)
            )
            left -= 1
            told.add(reply)
            if not reply.tool_calls:
                return reply, left
            for each in reply.tool_calls:
                told.messages.append(await self._call_tool(each, told))
            if left <= 0:
                return _cut_short(replace(reply, text=reply.text or None)), left

    async def _call_tool(self, asked: ToolCall, told: _Told) -> Message:
        """Answer a call of a tool; what goes wrong is a message to the model, not an end."""
        began, at = perf_counter(), time()
        args, success = _read_arguments(asked.arguments), True
        try:
            if args is None:
                raise ValueError("the arguments are not a JSON object")  # noqa: TRY301
            if asked.name not in self.tools:
                known = ", ".join(self.tools)
                raise ValueError(f"there is no tool {asked.name}, only {known}")  # noqa: TRY301
            said = await self.tools[asked.name](args)
        except Exception as error:  # noqa: BLE001 (a function may fail in any way, the run must not)
            said, success = f"error: {type(error).__name__}: {error}"[:_MOST], False
        user = [each for each in told.messages if each.get("role") == "user"]
        told.calls.append(
            {
                "tool_name": asked.name,
                "args": args if args is not None else asked.arguments,
                "context": _find_last_text(user),
                "success": success,
                "duration": round(perf_counter() - began, 6),
                "timestamp": at,
            }
        )
        return {"role": "tool", "tool_call_id": asked.id, "content": said}


def _cut_short(reply: Reply) -> Reply:
    return replace(reply, fields={**reply.fields, "finish_reason": _MAX_TURNS})


async def _take_turns(call: Call, told: _Told, part: UserPart | None) -> AsyncIterator[str]:
    """Yield what the user says, one turn after the other."""
    for turn in call.turns:
        yield turn
    while part is not None and (said := await part.speak(told.messages)) is not None:
        yield said


def _open_messages(call: Call) -> list[Message]:
    messages = [dict(each) for each in call.messages]
    if not messages and not call.turns and call.prompt:
        messages = [_make_user_message(call.prompt)]
    if call.system is not None and not any(e.get("role") == "system" for e in messages):
        messages.insert(0, {"role": "system", "content": call.system})
    return messages


def _read_trace(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the trace of a reply, which may be JSON or come in parts."""
    try:
        trace = complete_row(fields, (TRACE,)).get(TRACE)
        trace = json.loads(trace) if isinstance(trace, str) else trace
    except (ValueError, RecursionError) as problem:
        raise Fault("bad_response", f"trace: {problem}") from problem
    if trace is not None and not isinstance(trace, Mapping):
        raise Fault("bad_response", "trace: not an object")
    return trace


def _join_traces(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trace of two turns: the calls and messages of both, the agents' tasks added up.

    Of what is of another shape the later stands: the check of the record says what is wrong.
    """
    found = {**before, **after}
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        if isinstance(one, list) and isinstance(other, list):
            found[name] = [*one, *other]
        elif name == "agent_tasks" and _are_counts(one) and _are_counts(other):
            found[name] = {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
        elif name == "start_time":
            found[name] = one
    return found


def _are_counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(e, int | float) for e in value.values())


def _unite_names(before: Any, found: Any) -> Any:
    """Return the names of two turns; what is not a list of names stands as it is."""
    if isinstance(found, str):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(found)
    if before is None or not isinstance(found, list | tuple):
        return found
    return [*before, *(each for each in found if each not in before)]


def _make_user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def _make_assistant_message(reply: Reply) -> Message:
    text = reply.text if reply.text is not None else reply.fields.get("answer")
    message: Message = {"role": "assistant", "content": text}
    if reply.tool_calls:
        calls = [make_tool_call(each.id, each.name, each.arguments) for each in reply.tool_calls]
        message["tool_calls"] = calls
    return message


def _find_last_text(messages: Sequence[Message]) -> str:
    """Return the last message of the user as a text."""
    content = next((e.get("content") for e in reversed(messages) if e.get("role") == "user"), "")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(each for each in texts if isinstance(each, str))
    return content if isinstance(content, str) else ""


def _read_arguments(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
