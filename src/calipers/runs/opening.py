"""Opening of a suite's systems, which can then be called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.runs.preparing import Prepared
from calipers.runs.tools import open_tools
from calipers.support.cache import Say
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.cache import Cached
from calipers.systems.calls import System
from calipers.systems.conversations import Conversation
from calipers.systems.masked import Masked
from calipers.systems.opening import mask_errors, open_model
from calipers.systems.own_loop import OwnLoop
from calipers.systems.pace import Asking
from calipers.systems.posting import Endpoint, Session, open_session
from calipers.systems.pricing import find_pricing
from calipers.systems.secrets import hash_servers, mask_for, read_key
from calipers.systems.simulated_user import SimulatedUser, SpokenText
from calipers.systems.spec import SystemSpec

if TYPE_CHECKING:
    from calipers.systems.command_guard import CommandGuard


@asynccontextmanager
async def open_systems(
    of: Prepared, say: Say, *, batches: Path, fresh: bool
) -> AsyncIterator[list[System]]:
    """Open the suite's systems, in order.

    Args:
        of: The suite.
        say: Is called with notices of problems.
        batches: The file that remembers which calls wait in batches of a provider.
        fresh: Whether every call is made, also where the suite's cache has a reply.
    """
    suite = of.suite
    async with AsyncExitStack() as stack:
        opening = _Opening(of, say, batches, stack)
        if suite.user is not None or any(each.model or each.http for each in suite.systems):
            opening.session = await stack.enter_async_context(open_session())
        if any(each.command for each in suite.systems):
            from calipers.systems.command_guard import guard_commands  # noqa: PLC0415 (only then)

            opening.guard = stack.enter_context(guard_commands())
        if any(each.python for each in suite.systems):
            opening.loop = stack.enter_context(OwnLoop())
        mask = mask_for(suite.served)
        with mask_errors(mask):
            tools = open_tools(of.base / suite.tools) if suite.tools else {}
            user = opening.open_user()
            opened = [
                Conversation(opening.open(each), tools if each.model else {}, suite.max_turns, user)
                for each in suite.systems
            ]
        yield [
            opening.add_cache(Masked(system, mask), each, fresh=fresh)
            for system, each in zip(opened, suite.systems, strict=True)
        ]


@dataclass(slots=True)
class _Opening:
    """Opens systems with resources that they share, each of which is there if it is needed."""

    of: Prepared
    say: Say
    batches: Path
    stack: AsyncExitStack
    session: Session | None = None
    guard: CommandGuard | None = None
    loop: OwnLoop | None = None

    @property
    def weighs(self) -> bool:
        confidence = self.of.suite.confidence
        return confidence is not None and confidence.logprobs

    def open_user(self) -> SimulatedUser | None:
        """Return the model that plays the user, with attempts of its own."""
        suite, spec = self.of.suite, self.of.suite.user
        if spec is None:
            return None
        assert self.session is not None
        asking = Asking(
            SpokenText(open_model(spec.model, spec, self.session, logprobs=False)),
            concurrency=suite.concurrency,
            retries=suite.retries,
            timeout_seconds=suite.timeout_seconds,
            who="it",
        )
        return SimulatedUser(asking, spec.model, find_pricing(spec))

    def add_cache(self, system: System, of: SystemSpec, *, fresh: bool) -> System:
        """Return the model with a cache of its replies, if the suite names one."""
        suite = self.of.suite
        if suite.cache is None or of.model is None:
            return system
        asked: dict[str, Any] = {"model": of.model, "base_url": of.base_url}
        asked["logprobs"] = self.weighs
        asked |= hash_servers([of] if suite.user is None else [of, suite.user])
        if suite.user is not None:
            asked |= {"user": [suite.user.model, suite.user.base_url], "max_turns": suite.max_turns}
        return Cached(system, self.of.base / suite.cache, asked, self.say, reads=not fresh)

    def open(self, system: SystemSpec) -> System:
        """Return a system; UsageError says why it cannot be called."""
        if system.python is not None:
            return self._open_python(system, system.python)
        if system.command is not None:
            assert self.guard is not None
            from calipers.systems.commands import Command  # noqa: PLC0415 (only then)

            return Command(system.command, self.of.base, self.guard)
        assert self.session is not None
        if system.http is not None:
            return Endpoint(self.session, system.http, read_key(system))
        assert system.model is not None
        if system.mode == "batch":
            from calipers.systems.batches.opening import open_batch_model  # noqa: PLC0415 (rare)

            model = open_batch_model(
                system, self.session, self.batches, self.say, logprobs=self.weighs
            )
            self.stack.push_async_callback(model.close)
            return model
        return open_model(system.model, system, self.session, logprobs=self.weighs)

    def _open_python(self, system: SystemSpec, reference: str) -> System:
        """Return a function or an agent: at hand, in FILE.py:NAME, or registered by a plug-in."""
        from calipers.support.functions import load_object  # noqa: PLC0415 (only for functions)
        from calipers.systems.agents.system import AgentSystem, find_kind, make_error  # noqa: PLC0415
        from calipers.systems.callables import PythonFunction  # noqa: PLC0415
        from calipers.systems.registered import SYSTEMS  # noqa: PLC0415
        from calipers.systems.spans import open_collector  # noqa: PLC0415

        assert self.loop is not None
        found: Any = self.of.functions.get(system.name)
        if found is None and ":" in reference:
            found = load_object(reference, self.of.base)
        elif found is None:
            found = SYSTEMS.get(reference).function
        spans = open_collector() if system.otel else None
        if (kind := find_kind(found)) is not None:
            return AgentSystem(kind, found, self.loop, spans)
        if not callable(found):
            raise make_error(reference, found)
        return PythonFunction(found, self.loop, self.say, spans)
