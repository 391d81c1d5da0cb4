"""An agent of another library as a system that can be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.agents import langgraph, openai_agents, pydantic_ai
from calipers.systems.agents.turn import AgentTurn
from calipers.systems.callables import make_fault
from calipers.systems.calls import Call, Fault, Reply, describe_error
from calipers.systems.images import load_images
from calipers.systems.own_loop import OwnLoop, Raised
from calipers.systems.spans import SpanCollector, Watched, add_spans
from calipers.systems.wire import make_status_fault

Said = Sequence[Mapping[str, Any]]


class AgentKind(NamedTuple):
    """A library's agents: their name, how one is recognized, and how it takes a turn."""

    name: str
    is_agent: Callable[[Any], bool]
    take_turn: Callable[[Any, Call, Said], Awaitable[AgentTurn]]


KINDS = tuple(
    AgentKind(each.NAME, each.is_agent, each.take_turn)
    for each in (pydantic_ai, langgraph, openai_agents)
)


def find_kind(found: Any) -> AgentKind | None:
    """Return the library that an agent belongs to; None if it is not a known one."""
    return next((kind for kind in KINDS if kind.is_agent(found)), None)


def make_error(where: str, found: Any) -> UsageError:
    """Return why something can be called neither as a function nor as an agent."""
    if langgraph.is_not_compiled(found):
        return UsageError(f"{where} is a graph that is not compiled", fix="graph.compile()")
    known = ", ".join(kind.name for kind in KINDS)
    return UsageError(
        f"{where} is of type {type(found).__name__}, neither a function nor an agent that is known",
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
        said = await load_images(call) or call.open_messages()
        if said[-1].get("role") != "user" or not said[-1].get("content"):
            raise Fault("bad_request", "an agent needs a message of the user, and there is none")

        async def begin() -> AgentTurn:
            return await self.kind.take_turn(self.agent, call, said)

        watched = begin if self.spans is None else self.spans.watch(begin)
        try:
            turn = await self.loop.run(watched)
        except Raised as raised:
            raise _classify_fault(raised.error) from raised.error
        if isinstance(turn, Watched):
            return add_spans(turn.value.to_reply(call.prompt), turn.spans)
        assert isinstance(turn, AgentTurn)
        return turn.to_reply(call.prompt)


def _classify_fault(error: BaseException) -> Fault:
    """Return the fault for an exception of an agent, by the provider's status if there is one."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:  # noqa: PLR2004 (an error of HTTP)
        said = getattr(error, "body", None) or str(error)
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return make_status_fault(status, headers, said)
    names = [base.__name__ for base in type(error).__mro__]
    if any("Timeout" in name for name in names):
        return Fault("timeout", describe_error(error), again=True, outage=True)
    if any("Connect" in name for name in names):
        return Fault("connection", describe_error(error), again=True, outage=True)
    return make_fault(error)
