"""Several turns with a system, and tools that it may call: one call to all around it.

A model is asked, its tool calls are answered, and it is asked again until it calls no more; then
comes the next turn of the user. Tokens are added up, and every message is kept.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import Any

from calipers.support.functions import Function
from calipers.systems.calls import Call, Fault, Reply, System, ToolCall

MAX_TURNS = "max_turns"  # the finish_reason where a model was not done by then
_MOST = 100_000  # characters of a tool's reply
_SUMMED = (
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "cost_usd"),
)

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call: its definition, and a function or a fixed reply."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Function | None
    reply: str | None = None

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
    """What has been said so far, and what it took."""

    messages: list[Message]
    sums: dict[str, float] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, reply: Reply) -> None:
        for name in _SUMMED:
            if isinstance(value := reply.fields.get(name), int | float):
                self.sums[name] = self.sums.get(name, 0) + value


class Conversation:
    """A system that is talked with; calls without turns, messages and tools go straight to it."""

    def __init__(self, system: System, tools: Sequence[Tool], max_turns: int) -> None:
        self._system = system
        self._tools = {tool.name: tool for tool in tools}
        self._max_turns = max_turns

    async def __call__(self, call: Call) -> Reply:
        """Return the last reply, with all messages and the trace of the tools."""
        if not (call.messages or call.turns or self._tools):
            return await self._system(call)
        messages = [dict(each) for each in call.messages]
        told = _Told(messages if messages or call.turns else [_user(call.prompt)])
        if call.system is not None and not any(e.get("role") == "system" for e in told.messages):
            told.messages.insert(0, {"role": "system", "content": call.system})
        reply: Reply | None = None
        left = self._max_turns
        for turn in (None, *call.turns) if _awaits_reply(told.messages) else call.turns:
            if reply is not None and left <= 0:
                reply = replace(reply, fields={**reply.fields, "finish_reason": MAX_TURNS})
                break
            if turn is not None:
                told.messages.append(_user(turn))
            reply, left = await self._answered(call, told, left)
        if reply is None:
            raise Fault("bad_request", "the conversation has no message of the user")
        trace = {"trace": {"tool_calls": told.calls}} if self._tools else {}
        return replace(
            reply, fields={**reply.fields, **told.sums, **trace}, messages=tuple(told.messages)
        )

    async def _answered(self, call: Call, told: _Told, left: int) -> tuple[Reply, int]:
        """Ask until no more tools are called; return the reply and the turns that are left."""
        while True:
            now = [dict(each) for each in told.messages]
            asked = replace(
                call,
                prompt=_last_text(now),
                messages=now,
                turns=(),
                record={**call.record, "prompt": _last_text(now), "messages": now},
            )
            reply = await self._system(asked)
            left -= 1
            told.add(reply)
            told.messages.append(_assistant(reply))
            if not reply.tool_calls:
                return reply, left
            for each in reply.tool_calls:
                told.messages.append(await self._called(each, told))
            if left <= 0:
                fields = {**reply.fields, "finish_reason": MAX_TURNS}
                return replace(reply, text=reply.text or None, fields=fields), left

    async def _called(self, asked: ToolCall, told: _Told) -> Message:
        """Answer a call of a tool; what goes wrong is a message to the model, not an end."""
        began, at = perf_counter(), time()
        args, success = _arguments(asked.arguments), True
        try:
            if args is None:
                raise ValueError("the arguments are not a JSON object")  # noqa: TRY301
            if asked.name not in self._tools:
                known = ", ".join(self._tools)
                raise ValueError(f"there is no tool {asked.name}, only {known}")  # noqa: TRY301
            said = await self._tools[asked.name](args)
        except Exception as error:  # noqa: BLE001 (a function may fail in any way, the run must not)
            said, success = f"error: {type(error).__name__}: {error}"[:_MOST], False
        user = [each for each in told.messages if each.get("role") == "user"]
        told.calls.append(
            {
                "tool_name": asked.name,
                "args": args if args is not None else asked.arguments,
                "context": _last_text(user),
                "success": success,
                "duration": round(perf_counter() - began, 6),
                "timestamp": at,
            }
        )
        return {"role": "tool", "tool_call_id": asked.id, "content": said}


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(reply: Reply) -> Message:
    text = reply.text if reply.text is not None else reply.fields.get("answer")
    message: Message = {"role": "assistant", "content": text}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.name, "arguments": each.arguments},
            }
            for each in reply.tool_calls
        ]
    return message


def _awaits_reply(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].get("role") in ("user", "tool")


def _last_text(messages: Sequence[Message]) -> str:
    """Return the last message of the user as a text."""
    content = next((e.get("content") for e in reversed(messages) if e.get("role") == "user"), "")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(each for each in texts if isinstance(each, str))
    return content if isinstance(content, str) else ""


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
