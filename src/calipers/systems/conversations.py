"""Several turns with a system, tools that it may call and a simulated user, as one call.

A model is asked, its tool calls are answered, and it is asked again until it calls no more; then
comes the next turn of the user, which a task has written down or a model plays until its goal is
met or its turns run out. Tokens and traces are added up, and every message is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from pydantic import Field

from calipers.records.derived_fields import TRACE, TRACE_PARTS, complete_row
from calipers.support.strict_model import StrictModel
from calipers.support.user_code import Function
from calipers.systems.budget import Pricing
from calipers.systems.calls import (
    Call,
    Fault,
    Reply,
    System,
    ToolCall,
    UserRole,
    add_usage,
    make_tool_call,
)
from calipers.systems.reply_text import split_thought
from calipers.systems.spec import ServedModel, Settings, Text, allow

if TYPE_CHECKING:
    from calipers.systems.mcp_servers import McpTool
    from calipers.systems.tool_replies import Asked, ToolReplies

SIMULATED_USER = "simulated_user"  # the record's field
GOAL_MET, GAVE_UP, OUT_OF_TURNS = "goal_met", "gave_up", "max_turns"

_INSTRUCTIONS = """You play a person who talks with an assistant. Write only what this person \
says next, in their own words; never speak for the assistant.{persona}
The goal of this person: {goal}
Say one thing at a time, and give details when they are needed.
When the goal is met, write GOAL MET and nothing else. When it is clear that it cannot be met, \
write GIVE UP and nothing else."""
_BEGIN = "(The conversation begins.)"
_SILENCE = "(The assistant says nothing.)"
_ENDED = re.compile(r"(?:^|(?<=[\s*_#\[(\"]))(GOAL MET|GIVE UP)[\s*_.!\])\"]*\Z")
_ENDS = {"GOAL MET": GOAL_MET, "GIVE UP": GAVE_UP}


class TaskUser(StrictModel):
    """The user of one task; missing parts are taken from the suite."""

    persona: Text | None = allow("Who the user is, and how they talk.")
    goal: Text | None = allow("What the user wants to achieve.")
    max_turns: int | None = allow("Most turns of the user.", ge=1)


class UserSpec(ServedModel):
    """A user who is played by a model, and talks with each system."""

    persona: Text | None = allow("Who the user is, and how they talk; with {field}.")
    goal: Text | None = allow("What the user wants to achieve, with {field}; or in each task.")
    max_turns: int = Field(default=10, ge=1, description="Most turns of the user.")
    settings: Settings = Field(
        default_factory=dict, description="Settings of the model: temperature, max_tokens, …"
    )

    def settings_of(self, run: int) -> dict[str, Any]:
        """Return the settings of a run: the seed, 0 unless given, goes up with each; null: none."""
        settings = {"seed": 0, **self.settings}
        if isinstance(settings["seed"], int):
            settings["seed"] += run - 1
        return {name: value for name, value in settings.items() if value is not None}


def sum_user_cost(record: Mapping[str, Any]) -> float:
    """Return what the simulated user of a record cost, as far as that is known."""
    if SIMULATED_USER not in record:
        return 0.0
    user = record[SIMULATED_USER]
    cost = user.get("cost_usd") if isinstance(user, Mapping) else None
    return float(cost) if isinstance(cost, int | float) else 0.0


class SpokenText:
    """A model whose reply must be a text: an empty or truncated one may be asked for again."""

    def __init__(self, model: System) -> None:
        self._model = model

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, without what was thought aloud; a Fault where nothing is left."""
        reply = await self._model(call)
        text = split_thought(reply.text or "")[0].strip()
        if not text:
            raise Fault("bad_response", "an empty message", again=True, usage=reply.fields)
        return Reply(text=text, fields=reply.fields)


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """The model that plays the user, in many conversations at a time."""

    model: System
    name: str
    pricing: Pricing | None


@dataclass(slots=True)
class UserTurns:
    """The user's part in one conversation: what was said, how it ended, what it took."""

    user: SimulatedUser
    role: UserRole
    turns: int = 0
    ended: str = OUT_OF_TURNS
    closing: str | None = None
    seconds: float = 0.0  # that the system waited for it
    sums: dict[str, float] = field(default_factory=dict)
    _is_priced: bool = True

    async def speak(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """Return what the user says next, or None where the conversation is over.

        Once its turns are over it is asked a last time, whether its goal is met.

        Raises:
            Fault: The model failed, or ended the conversation before it began.
        """
        text = await self._say(messages)
        match = _ENDED.search(text)
        if match is not None:
            if not any(message.get("role") == "assistant" for message in messages):
                raise _name_user(Fault("bad_response", "it ended the conversation before it began"))
            self.ended, self.closing = _ENDS[match[1]], text
            return None
        if self.turns >= self.role.max_turns:
            return None
        self.turns += 1
        return text

    async def _say(self, messages: Sequence[Mapping[str, Any]]) -> str:
        persona = f"\nThe person: {self.role.persona}" if self.role.persona else ""
        instructions = _INSTRUCTIONS.format(persona=persona, goal=self.role.goal)
        heard = [{"role": "system", "content": instructions}, *_as_heard(messages)]
        call = Call(record={}, prompt="", messages=heard, settings=self.role.settings)
        began = perf_counter()
        try:
            reply = await self.user.model(call)
        except Fault as fault:
            if fault.usage:
                self._count(fault.usage)
            raise _name_user(fault) from fault
        self.seconds += perf_counter() - began
        self._count(reply.fields)
        return reply.text or ""

    def _count(self, used: Mapping[str, Any]) -> None:
        add_usage(self.sums, used)
        pricing = self.user.pricing
        cost = None if pricing is None else pricing.compute_cost(used)
        if cost is None:
            self._is_priced = False
        else:
            self.sums["cost_usd"] = self.sums.get("cost_usd", 0.0) + cost

    def to_dict(self) -> dict[str, Any]:
        """Return what the record keeps."""
        sums = {k: v for k, v in self.sums.items() if k != "cost_usd" or self._is_priced}
        return {
            "model": self.user.name,
            **({} if self.role.persona is None else {"persona": self.role.persona}),
            "goal": self.role.goal,
            "max_turns": self.role.max_turns,
            "seed": self.role.settings.get("seed"),
            "turns": self.turns,
            "ended": self.ended,
            "goal_met": self.ended == GOAL_MET,
            **({} if self.closing is None else {"closing": self.closing}),
            **sums,
        }


def _as_heard(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation from the user's side, with the roles exchanged."""
    heard = [{"role": "user", "content": _BEGIN}]
    for message in messages:
        text = _read_text(message.get("content"))
        if message.get("role") == "user":
            heard.append({"role": "assistant", "content": text})
        elif message.get("role") == "assistant" and (text or not message.get("tool_calls")):
            heard.append({"role": "user", "content": text or _SILENCE})
    return heard


def _read_text(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(part if isinstance(part, str) else "(an image)" for part in parts)
    return content if isinstance(content, str) else ""


def _name_user(fault: Fault) -> Fault:
    """Return a fault that names the simulated user; the system is not asked again for it."""
    return Fault(fault.kind, f"the simulated user: {fault.message}", most=fault.most)


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
            result = await self.function(**args)
        else:
            result = await asyncio.to_thread(self.function, **args)
        text = result if isinstance(result, str) else json.dumps(result, default=str)
        return text[:_MOST]


@dataclass(slots=True)
class _Transcript:
    """The conversation so far, and its usage."""

    messages: list[Message]
    sums: dict[str, float] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)  # of servers' tools
    fields: dict[str, Any] = field(default_factory=dict)  # of all turns: traces, behaviors
    state: Any = None  # of an agent
    is_cached: bool = True  # every reply so far came from the cache
    more_seconds: float = 0.0  # that replies took by what they say, beyond the time of their calls

    def add(self, reply: Reply, seconds: float) -> None:
        self.is_cached &= reply.is_cached
        self.more_seconds += 0.0 if reply.seconds is None else reply.seconds - seconds
        self.messages += map(dict, reply.messages or [_make_assistant_message(reply)])
        self.state = reply.state
        add_usage(self.sums, reply.fields)
        if (trace := _read_trace(reply.fields)) is not None:
            self.fields[TRACE] = _join_traces(self.fields.get(TRACE, {}), trace)
        for name in _LISTS:
            if (value := reply.fields.get(name)) is not None:
                self.fields[name] = _unite_names(self.fields.get(name), value)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system in a conversation; calls without turns, messages and tools are passed on."""

    system: System
    tools: Mapping[str, Tool | McpTool]
    max_turns: int
    user: SimulatedUser | None
    tool_replies: ToolReplies | None = None  # of servers

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
        transcript, began = _Transcript(_open_messages(call)), perf_counter()
        part = None if call.user is None or self.user is None else UserTurns(self.user, call.user)
        try:
            reply = await self._play_turns(call, transcript, part)
        except Fault as fault:
            add_usage(transcript.sums, fault.usage)
            user = {} if part is None else {SIMULATED_USER: part.to_dict()}
            fault.usage = {**transcript.sums, **user}
            raise
        in_trace = TRACE_PARTS if TRACE in transcript.fields else ()
        fields = {name: value for name, value in reply.fields.items() if name not in in_trace}
        fields |= {**transcript.fields, **transcript.sums}
        if self.tools:
            fields[TRACE] = {"tool_calls": transcript.calls}
        seconds = perf_counter() - began + transcript.more_seconds
        if part is not None:
            seconds -= part.seconds
            fields[SIMULATED_USER] = part.to_dict()
        return replace(
            reply,
            fields=fields,
            messages=tuple(transcript.messages),
            seconds=seconds,
            is_cached=transcript.is_cached,
        )

    async def _play_turns(
        self, call: Call, transcript: _Transcript, part: UserTurns | None
    ) -> Reply:
        """Ask for a reply to what was said already, then to each turn of the user."""
        reply: Reply | None = None
        left = self.max_turns
        if transcript.messages and transcript.messages[-1].get("role") in ("user", "tool"):
            reply, left = await self._ask_until_answered(call, transcript, left)
        async for turn in _take_turns(call, transcript, part):
            if reply is not None and left <= 0:
                if part is not None:
                    part.turns -= 1  # nobody has heard it
                return _mark_cut_short(reply)
            transcript.messages.append(_make_user_message(turn))
            reply, left = await self._ask_until_answered(call, transcript, left)
        if reply is None:
            raise Fault("bad_request", "the conversation has no message of the user")
        return reply

    async def _ask_until_answered(
        self, call: Call, transcript: _Transcript, left: int
    ) -> tuple[Reply, int]:
        """Ask until the model calls no more tools; return the reply and the turns that are left."""
        while True:
            now = [dict(message) for message in transcript.messages]
            asked: dict[str, Any] = {"prompt": _find_last_text(now), "messages": now}
            record, began = {**call.record, **asked}, perf_counter()
            reply = await self.system(
                replace(call, **asked, turns=(), state=transcript.state, record=record)
            )
            left -= 1
            transcript.add(reply, perf_counter() - began)
            if not reply.tool_calls:
                return reply, left
            for tool_call in reply.tool_calls:
                transcript.messages.append(await self._call_tool(call, tool_call, transcript))
            if left <= 0:
                return _mark_cut_short(replace(reply, text=reply.text or None)), left

    async def _call_tool(self, call: Call, asked: ToolCall, transcript: _Transcript) -> Message:
        """Answer a call of a tool; what goes wrong in it is a message to the model, not an end.

        Raises:
            Fault: A server has not answered.
        """
        began, at = perf_counter(), time()
        args, success = _read_arguments(asked.arguments), True
        more: dict[str, Any] = {}
        try:
            if args is None:
                raise ValueError("the arguments are not a JSON object")  # noqa: TRY301
            if asked.name not in self.tools:
                known = ", ".join(self.tools)
                raise ValueError(f"there is no tool {asked.name}, only {known}")  # noqa: TRY301
            tool = self.tools[asked.name]
            if isinstance(tool, Tool):
                content = await tool(args)
            else:
                more = await self._ask_server(tool, call, args, transcript)
                content, success = more["reply"], more["success"]
        except Fault:
            raise
        except Exception as error:  # noqa: BLE001 (a function may fail in any way, the run must not)
            content, success = f"error: {type(error).__name__}: {error}"[:_MOST], False
        user = [message for message in transcript.messages if message.get("role") == "user"]
        transcript.calls.append(
            {
                "tool_name": asked.name,
                "args": args if args is not None else asked.arguments,
                "context": _find_last_text(user),
                "success": success,
                "duration": round(perf_counter() - began, 6),
                "timestamp": at,
                **more,
            }
        )
        return {"role": "tool", "tool_call_id": asked.id, "content": content}

    async def _ask_server(
        self, tool: McpTool, call: Call, args: dict[str, Any], transcript: _Transcript
    ) -> dict[str, Any]:
        """Return what a server's tool replied, then or now, as the trace has it."""
        transcript.asked.append((tool.name, args))
        if self.tool_replies is not None:
            kept = self.tool_replies.find(call.record, transcript.asked)
            if kept is not None:
                names = ("server", "reply", "success", "duration", "timestamp")
                transcript.more_seconds += kept["duration"]
                return {**{name: kept[name] for name in names}, "replayed": True}
        began, at = perf_counter(), time()
        reply, success = await tool(args)
        answer = {"server": tool.server.name, "reply": reply, "success": success}
        answer |= {"duration": round(perf_counter() - began, 6), "timestamp": at}
        if self.tool_replies is not None:
            self.tool_replies.keep(call.record, transcript.asked, answer)
        return answer


def _mark_cut_short(reply: Reply) -> Reply:
    return replace(reply, fields={**reply.fields, "finish_reason": _MAX_TURNS})


async def _take_turns(
    call: Call, transcript: _Transcript, part: UserTurns | None
) -> AsyncIterator[str]:
    """Yield what the user says, one turn after the other."""
    for turn in call.turns:
        yield turn
    while part is not None and (spoken := await part.speak(transcript.messages)) is not None:
        yield spoken


def _open_messages(call: Call) -> list[Message]:
    messages = [dict(message) for message in call.messages]
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
    traces = {**before, **after}
    for name in before.keys() & after.keys():
        one, other = before[name], after[name]
        if isinstance(one, list) and isinstance(other, list):
            traces[name] = [*one, *other]
        elif name == "agent_tasks" and _are_counts(one) and _are_counts(other):
            traces[name] = {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
        elif name == "start_time":
            traces[name] = one
    return traces


def _are_counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(e, int | float) for e in value.values())


def _unite_names(before: Any, after: Any) -> Any:
    """Return the names of two turns; what is not a list of names stands as it is."""
    if isinstance(after, str):
        with contextlib.suppress(ValueError, RecursionError):
            after = json.loads(after)
    if before is None or not isinstance(after, list | tuple):
        return after
    return [*before, *(name for name in after if name not in before)]


def _make_user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def _make_assistant_message(reply: Reply) -> Message:
    text = reply.text if reply.text is not None else reply.fields.get("answer")
    message: Message = {"role": "assistant", "content": text}
    if reply.tool_calls:
        calls = [
            make_tool_call(tool_call.id, tool_call.name, tool_call.arguments)
            for tool_call in reply.tool_calls
        ]
        message["tool_calls"] = calls
    return message


def _find_last_text(messages: Sequence[Message]) -> str:
    """Return the last message of the user as a text."""
    content = next((e.get("content") for e in reversed(messages) if e.get("role") == "user"), "")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _read_arguments(text: str) -> dict[str, Any] | None:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None
