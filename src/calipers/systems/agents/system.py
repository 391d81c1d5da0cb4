"""An agent of another library as a system that can be asked, and functions that return one.

An agent that keeps its conversation cannot be asked about several tasks at a time; a function
without parameters makes one for each. A function may also return an agent for its record, or yield
the messages of one.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isclass, isroutine, unwrap
from pathlib import Path
from typing import Any, NamedTuple

from calipers.support.errors import UsageError
from calipers.support.files import Say
from calipers.systems.agents import (
    autogen,
    claude_sdk,
    crewai,
    google_adk,
    langgraph,
    openai_agents,
    pydantic_ai,
    smolagents,
)
from calipers.systems.calls import (
    AgentTurn,
    Call,
    Fault,
    Reply,
    System,
    describe_error,
    make_reply,
)
from calipers.systems.functions import (
    OwnLoop,
    PythonFunction,
    Raised,
    find_own_line,
    make_fault,
    measure_seconds,
)
from calipers.systems.http import make_status_fault
from calipers.systems.images import load_images
from calipers.systems.otel import SpanCollector, WatchedResult, add_spans

Said = Sequence[Mapping[str, Any]]

_INSTALLED = frozenset(("site-packages", "dist-packages"))


class AgentKind(NamedTuple):
    """A library's agents: their name, how one is recognized, and how it takes a turn.

    `maker` is the function that makes one for each task, where one cannot serve several.
    """

    name: str
    is_agent: Callable[[Any], bool]
    take_turn: Callable[[Any, Call, Said], Awaitable[AgentTurn]]
    maker: str | None


KINDS = tuple(
    AgentKind(library.NAME, library.is_agent, library.take_turn, getattr(library, "MAKER", None))
    for library in (pydantic_ai, langgraph, openai_agents, smolagents, crewai, autogen, google_adk)
)
STREAMS = (claude_sdk, autogen, google_adk)  # libraries whose messages a function may yield


def find_kind(candidate: Any) -> AgentKind | None:
    """Return the library that an agent belongs to; None if it is not a known one."""
    return next((kind for kind in KINDS if kind.is_agent(candidate)), None)


def is_of_library(candidate: Any, reference: str = "") -> bool:
    """Return True if a callable object is of a library, which may mean something else by a call.

    Functions, methods and classes are not, nor are objects whose `__call__` is written in the file
    that the reference names, or, without one, in no installed package.
    """
    while isinstance(candidate, partial):
        candidate = candidate.func
    candidate = unwrap(candidate)
    if (
        isroutine(candidate)
        or isclass(candidate)
        or type(candidate).__module__ in sys.stdlib_module_names
    ):
        return False
    code = getattr(unwrap(type(candidate).__call__), "__code__", None)
    if code is None:
        return True
    written = Path(code.co_filename)
    file = reference.rpartition(":")[0]
    if file.endswith(".py"):
        return written.name != Path(file).name
    return not _INSTALLED.isdisjoint(written.parts)


def make_error(where: str, candidate: Any) -> UsageError:
    """Return why something can be called neither as a function nor as an agent."""
    if langgraph.is_not_compiled(candidate):
        return UsageError(f"{where} is a graph that is not compiled", fix="graph.compile()")
    known = ", ".join(kind.name for kind in KINDS)
    if callable(candidate):
        return UsageError(
            f"{where} is an object of type {type(candidate).__name__}, of a library whose agents "
            "are not known: what a call of it means is not known either",
            fix=f"write a function that asks it: def answer(record: dict) -> str; known: {known}",
        )
    return UsageError(
        f"{where} is of type {type(candidate).__name__}, "
        "neither a function nor an agent that is known",
        fix=f"{known}; or a function that calls it: def answer(record: dict) -> str",
    )


def open_python(
    candidate: Any, where: str, loop: OwnLoop, say: Say, spans: SpanCollector | None
) -> System:
    """Return a function or an agent as a system.

    Raises:
        UsageError: It is neither, or an agent that cannot serve several tasks.
    """
    if (kind := find_kind(candidate)) is not None:
        if kind.maker is not None:
            raise UsageError(
                f"{where} is {kind.name}, which keeps the conversation: each task needs its own",
                fix=f"name a function that makes one: {kind.maker}",
            )
        return AgentSystem(kind, candidate, loop, spans)
    if not callable(candidate) or is_of_library(candidate, where):
        raise make_error(where, candidate)
    return CallableSystem(PythonFunction(candidate, loop, say, spans), loop, spans)


@dataclass(frozen=True, slots=True)
class AgentSystem:
    """Runs an agent in the loop of the functions that people write."""

    kind: AgentKind
    agent: Any
    loop: OwnLoop
    spans: SpanCollector | None

    async def __call__(self, call: Call) -> Reply:
        """Return what the agent says, its messages, the calls of its tools and its tokens."""
        messages = await load_images(call) or call.open_messages()
        if messages[-1].get("role") != "user" or not messages[-1].get("content"):
            raise Fault("bad_request", "an agent needs a message of the user, and there is none")

        async def begin() -> AgentTurn:
            return await self.kind.take_turn(self.agent, call, messages)

        return await _finish_turn(begin, call, self.loop, self.spans)


@dataclass(frozen=True, slots=True)
class CallableSystem:
    """Calls a function; where it gives an agent or a stream of messages, reads those."""

    function: PythonFunction
    loop: OwnLoop
    spans: SpanCollector | None

    async def __call__(self, call: Call) -> Reply:
        """Return the function's reply, or that of the agent which it gave."""
        if isinstance(call.state, _Ongoing):
            return await self._ask(call.state.agent, replace(call, state=call.state.state))
        given = await self.function.run(call)
        if (kind := find_kind(given.value)) is not None:
            agent = AgentSystem(kind, given.value, self.loop, self.spans)
            reply = await self._ask(agent, call)
        elif isinstance(given.value, AsyncIterator):
            reply = await _finish_turn(
                lambda: _read_stream(given.value, call), call, self.loop, self.spans
            )
        elif self.function.takes_nothing:
            what = f"a value of type {type(given.value).__name__}"
            raise Fault(
                "bad_response",
                f"the function has no parameters, and gives {what} instead of an agent: "
                "def answer(record: dict) takes the record",
            )
        else:
            reply = add_spans(make_reply(given.value), given.spans)
        return replace(reply, seconds=given.seconds + (reply.seconds or 0.0))

    async def _ask(self, agent: AgentSystem, call: Call) -> Reply:
        reply = await agent(call)
        return replace(reply, state=_Ongoing(agent, reply.state))


@dataclass(frozen=True, slots=True)
class _Ongoing:
    """An agent that a function gave, and what it needs to go on."""

    agent: AgentSystem
    state: Any


async def _finish_turn(
    begin: Callable[[], Awaitable[AgentTurn]],
    call: Call,
    loop: OwnLoop,
    spans: SpanCollector | None,
) -> Reply:
    """Return a turn as a reply; raise a Fault for what was raised in it."""
    watched = begin if spans is None else spans.watch(begin)
    try:
        turn, seconds = await loop.run(lambda: measure_seconds(watched()))
    except Raised as raised:
        raise _classify_fault(raised.error) from raised.error
    if isinstance(turn, WatchedResult):
        reply = add_spans(turn.value.to_reply(call.prompt), turn.spans)
    else:
        reply = turn.to_reply(call.prompt)
    return replace(reply, seconds=seconds)


async def _read_stream(stream: AsyncIterator[Any], call: Call) -> AgentTurn:
    """Return the turn that the messages of a stream tell; pieces of a text are its answer.

    Raises:
        Fault: There are none, they are of no library that is known, or they end by an error.
    """
    messages: list[Any] = []
    try:
        async for message in stream:
            messages.append(message)  # noqa: PERF401 (what came before an error tells its kind)
    except Exception:
        if claude_sdk.is_stream(messages):
            claude_sdk.read_stream(messages, call.prompt)
        raise
    if messages and all(isinstance(message, str) for message in messages):
        text = "".join(messages)
        return AgentTurn(output=text, messages=[{"role": "assistant", "content": text}], state=None)
    for library in STREAMS if messages else ():
        if library.is_stream(messages):
            turn: AgentTurn = library.read_stream(messages, call.prompt)
            return turn
    what = f"values of type {type(messages[-1]).__name__}" if messages else "nothing"
    raise Fault(
        "bad_response",
        f"the function yields {what}: it may yield texts, messages of the Claude Agent SDK, of "
        'AutoGen or of Google\'s ADK; or return "…" or {"answer": …}',
    )


def _classify_fault(error: BaseException) -> Fault:
    """Return the fault for an exception of an agent, by the provider's status if there is one.

    Some libraries raise an exception of their own from the provider's.
    """
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for each in chain:
        if (status := _find_status(each)) is not None:
            problem = getattr(each, "body", None) or str(each)
            headers = getattr(getattr(each, "response", None), "headers", None) or {}
            return make_status_fault(status, headers, problem)
    problem = describe_error(error, find_own_line(error))
    for each in chain:
        names = [base.__name__ for base in type(each).__mro__]
        if any("Timeout" in name for name in names):
            return Fault("timeout", problem, again=True, outage=True)
        if any("Connect" in name for name in names):
            return Fault("connection", problem, again=True, outage=True)
    return make_fault(error)


def _find_status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    is_error = isinstance(status, int) and status >= 400  # noqa: PLR2004 (an error of HTTP)
    return status if is_error else None
