"""Opening of a suite's systems, which can then be called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from calipers.runs.suite import Suite
from calipers.runs.tools import open_tools
from calipers.support.cache import Say
from calipers.support.functions import Function, load_object
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.agents.system import AgentSystem, find_kind, make_error
from calipers.systems.cache import Cached
from calipers.systems.callables import PythonFunction
from calipers.systems.calls import System
from calipers.systems.command_guard import CommandGuard, guard_commands
from calipers.systems.commands import Command
from calipers.systems.conversations import Conversation
from calipers.systems.masked import Masked
from calipers.systems.opening import mask_errors, open_model
from calipers.systems.own_loop import OwnLoop
from calipers.systems.pace import Asking
from calipers.systems.posting import Endpoint, Session, open_session
from calipers.systems.pricing import find_pricing
from calipers.systems.registered import SYSTEMS
from calipers.systems.secrets import hash_servers, mask_for, read_key
from calipers.systems.simulated_user import SimulatedUser, SpokenText
from calipers.systems.spans import open_collector
from calipers.systems.spec import SystemSpec


@dataclass(slots=True)
class _Shared:
    """Resources that systems share, each opened when first needed."""

    stack: AsyncExitStack
    batches: Path
    session: Session | None = None
    guard: CommandGuard | None = None
    loop: OwnLoop | None = None


@asynccontextmanager
async def open_systems(
    suite: Suite,
    folder: Path,
    say: Say,
    *,
    batches: Path,
    fresh: bool,
    functions: Mapping[str, Function],
) -> AsyncIterator[list[System]]:
    """Open the suite's systems, in order.

    Args:
        suite: The suite.
        folder: What its paths are relative to.
        say: Is called with notices of problems.
        batches: The file that remembers which calls wait in batches of a provider.
        fresh: Whether every call is made, also where the suite's cache has a reply.
        functions: Systems that are at hand, by name, and need not be loaded.
    """
    async with AsyncExitStack() as stack:
        shared = _Shared(stack, batches)
        if suite.user is not None or any(each.model or each.http for each in suite.systems):
            shared.session = await stack.enter_async_context(open_session())
        if any(each.command for each in suite.systems):
            shared.guard = stack.enter_context(guard_commands())
        if any(each.python for each in suite.systems):
            shared.loop = stack.enter_context(OwnLoop())
        mask = mask_for(suite.served)
        with mask_errors(mask):
            tools = open_tools(folder / suite.tools) if suite.tools else {}
            user = _open_user(suite, shared)
            opened = [
                Conversation(
                    _open(each, suite, folder, shared, say, functions),
                    tools if each.model else {},
                    suite.max_turns,
                    user,
                )
                for each in suite.systems
            ]
        yield [
            _add_cache(Masked(system, mask), each, suite, folder, say, fresh=fresh)
            for system, each in zip(opened, suite.systems, strict=True)
        ]


def _open_user(suite: Suite, shared: _Shared) -> SimulatedUser | None:
    """Return the model that plays the user, with attempts of its own."""
    spec = suite.user
    if spec is None:
        return None
    assert shared.session is not None
    asking = Asking(
        SpokenText(open_model(spec.model, spec, shared.session, logprobs=False)),
        concurrency=suite.concurrency,
        retries=suite.retries,
        timeout_seconds=suite.timeout_seconds,
        who="it",
    )
    return SimulatedUser(asking, spec.model, find_pricing(spec))


def _add_cache(
    system: System, of: SystemSpec, suite: Suite, folder: Path, say: Say, *, fresh: bool
) -> System:
    """Return the model with a cache of its replies, if the suite names one."""
    if suite.cache is None or of.model is None:
        return system
    weighed = suite.confidence is not None and suite.confidence.logprobs
    asked: dict[str, Any] = {"model": of.model, "base_url": of.base_url, "logprobs": weighed}
    asked |= hash_servers([of] if suite.user is None else [of, suite.user])
    if suite.user is not None:
        asked |= {"user": [suite.user.model, suite.user.base_url], "max_turns": suite.max_turns}
    return Cached(system, folder / suite.cache, asked, say, reads=not fresh)


def _open_python(system: SystemSpec, folder: Path, loop: OwnLoop, say: Say, at_hand: Any) -> System:
    """Return a function or an agent: at hand, in FILE.py:NAME, or registered by a plug-in.

    Raises:
        UsageError: It is neither.
    """
    reference = system.python or ""
    found = at_hand
    if found is None:
        is_file = ":" in reference
        found = load_object(reference, folder) if is_file else SYSTEMS.get(reference).function
    spans = open_collector() if system.otel else None
    if (kind := find_kind(found)) is not None:
        return AgentSystem(kind, found, loop, spans)
    if not callable(found):
        raise make_error(reference, found)
    return PythonFunction(found, loop, say, spans)


def _open(
    system: SystemSpec,
    suite: Suite,
    folder: Path,
    shared: _Shared,
    say: Say,
    functions: Mapping[str, Function],
) -> System:
    if system.python is not None:
        assert shared.loop is not None
        return _open_python(system, folder, shared.loop, say, functions.get(system.name))
    if system.command is not None:
        assert shared.guard is not None
        return Command(system.command, folder, shared.guard)
    session = shared.session
    assert session is not None
    if system.http is not None:
        return Endpoint(session, system.http, read_key(system))
    assert system.model is not None
    logprobs = suite.confidence is not None and suite.confidence.logprobs
    if system.mode == "batch":
        from calipers.systems.batches.opening import open_batch_model  # noqa: PLC0415 (aiohttp)

        model = open_batch_model(system, session, shared.batches, say, logprobs=logprobs)
        shared.stack.push_async_callback(model.close)
        return model
    return open_model(system.model, system, session, logprobs=logprobs)
