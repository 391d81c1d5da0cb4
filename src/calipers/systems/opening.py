"""Open the models that a suite names: each can then be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.chat import CHAT, ChatModel
from calipers.systems.masked import Masked
from calipers.systems.masking import Mask
from calipers.systems.posting import Session, open_session
from calipers.systems.secrets import mask_for, read_key
from calipers.systems.spec import Served, ServedModel

_FIRST_REST = 0.5
_LONGEST_REST = 30.0
_MOST_DOUBLINGS = 10


@asynccontextmanager
async def open_models(models: Sequence[ServedModel]) -> AsyncIterator[list[System]]:
    """Open the models, in order."""
    mask = mask_for(models)
    async with open_session() as session:
        with mask_errors(mask):
            opened = [open_model(each.model, each, session, logprobs=False) for each in models]
        yield [Masked(each, mask) for each in opened]


@contextmanager
def mask_errors(mask: Mask) -> Iterator[None]:
    """Take keys out of what an SDK, or a file of Python, says when it cannot be loaded."""
    try:
        yield
    except UsageError as error:
        raise UsageError(mask(error.message), fix=mask(error.fix)) from None


def open_model(name: str, served: Served, session: Session, *, logprobs: bool) -> System:
    """Return the model behind its own server or servers, or behind its provider's."""
    key = read_key(served)
    opened = [
        _open_at(url, name, key, session, logprobs=logprobs) for url in served.urls or (None,)
    ]
    return opened[0] if len(opened) == 1 else LeastLoaded(opened)


def _open_at(
    url: str | None, name: str, key: str | None, session: Session, *, logprobs: bool
) -> System:
    if url is not None and name.partition(":")[0] in CHAT:
        return ChatModel(session, name, url, key, logprobs=logprobs)
    from calipers.systems.providers import ProviderModel  # noqa: PLC0415 (an extra)

    return ProviderModel(session, name, url, key, logprobs=logprobs)


@dataclass(slots=True)
class _FleetServer:
    system: System
    in_flight: int = 0
    calls: int = 0
    failures: int = 0  # one after the other
    rests_until: float = 0.0


class LeastLoaded:
    """Several servers of one model: a call goes to the one with the fewest calls in flight.

    A server that cannot be reached would have none, and attract all calls: after a failure it is
    not used for a while, longer each time, as long as another one is available.
    """

    def __init__(self, systems: Sequence[System], clock: Callable[[], float] = monotonic) -> None:
        self._servers = [_FleetServer(system) for system in systems]
        self._clock = clock

    async def __call__(self, call: Call) -> Reply:
        """Return the reply of the server that was chosen."""
        server = self._choose()
        server.in_flight += 1
        server.calls += 1
        try:
            reply = await server.system(call)
        except Fault as fault:
            if fault.again:
                self._let_rest(server, fault.retry_after or 0.0)
            raise
        except asyncio.CancelledError:  # it took too long
            self._let_rest(server)
            raise
        else:
            server.failures = 0
            return reply
        finally:
            server.in_flight -= 1

    def _choose(self) -> _FleetServer:
        """Return a server that does not rest, the one with fewest calls; else the next to wake."""
        now = self._clock()
        awake = [each for each in self._servers if each.rests_until <= now]
        if not awake:
            return min(self._servers, key=lambda each: each.rests_until)
        return min(awake, key=lambda each: (each.in_flight, each.calls))

    def _let_rest(self, server: _FleetServer, at_least: float = 0.0) -> None:
        """Keep a server out of use that could not serve: the next call may do better elsewhere."""
        rest = min(_LONGEST_REST, _FIRST_REST * 2 ** min(server.failures, _MOST_DOUBLINGS))
        server.failures += 1
        server.rests_until = self._clock() + max(rest, at_least)
