"""Several servers of one model: a call goes to the one with the fewest calls in flight.

A server that cannot be reached would have none, and attract all calls: after a failure it is not
used for a while, longer each time, as long as another one is available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from calipers.support.quick_dataclasses import dataclass
from calipers.systems.calls import Call, Fault, Reply, System

_FIRST_REST = 0.5
_LONGEST_REST = 30.0
_MOST_DOUBLINGS = 10


@dataclass(slots=True)
class _FleetServer:
    system: System
    in_flight: int = 0
    calls: int = 0
    failures: int = 0  # one after the other
    rests_until: float = 0.0


class LeastLoaded:
    """Sends each call to the server that has the least to do."""

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
