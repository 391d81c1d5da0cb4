"""An agent of another library as a system that can be asked."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isclass, isroutine, unwrap
from pathlib import Path
from typing import Any, NamedTuple

from calipers.support.errors import UsageError
from calipers.systems.agents import langgraph, openai_agents, pydantic_ai
from calipers.systems.calls import AgentTurn, Call, Fault, Reply, describe_error
from calipers.systems.functions import OwnLoop, Raised, find_own_line, make_fault, measure_seconds
from calipers.systems.http import make_status_fault
from calipers.systems.images import load_images
from calipers.systems.otel import SpanCollector, WatchedResult, add_spans

Said = Sequence[Mapping[str, Any]]

_INSTALLED = frozenset(("site-packages", "dist-packages"))


class AgentKind(NamedTuple):
    """A library's agents: their name, how one is recognized, and how it takes a turn."""

    name: str
    is_agent: Callable[[Any], bool]
    take_turn: Callable[[Any, Call, Said], Awaitable[AgentTurn]]


KINDS = tuple(
    AgentKind(library.NAME, library.is_agent, library.take_turn)
    for library in (pydantic_ai, langgraph, openai_agents)
)


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

        watched = begin if self.spans is None else self.spans.watch(begin)
        try:
            turn, seconds = await self.loop.run(lambda: measure_seconds(watched()))
        except Raised as raised:
            raise _classify_fault(raised.error) from raised.error
        if isinstance(turn, WatchedResult):
            reply = add_spans(turn.value.to_reply(call.prompt), turn.spans)
        else:
            reply = turn.to_reply(call.prompt)
        return replace(reply, seconds=seconds)


def _classify_fault(error: BaseException) -> Fault:
    """Return the fault for an exception of an agent, by the provider's status if there is one."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:  # noqa: PLR2004 (an error of HTTP)
        problem = getattr(error, "body", None) or str(error)
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return make_status_fault(status, headers, problem)
    problem = describe_error(error, find_own_line(error))
    names = [base.__name__ for base in type(error).__mro__]
    if any("Timeout" in name for name in names):
        return Fault("timeout", problem, again=True, outage=True)
    if any("Connect" in name for name in names):
        return Fault("connection", problem, again=True, outage=True)
    return make_fault(error)
