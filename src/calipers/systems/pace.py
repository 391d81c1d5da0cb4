"""The pace of calls to one system: as fast as it accepts calls, paused while it is down.

The limit of calls in flight is halved when the system says that there are too many, and grows by
one with every round of good ones (additive increase, multiplicative decrease). A system whose calls
fail one after the other is left alone for a while, then tried with one call; if it stays down, the
rest of its calls are given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from time import monotonic

from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.deadlines import Deadlines

_LONGEST_WAIT = 600.0  # seconds that a server may ask for
FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 20.0
_TRIPS_AT = 5  # calls that failed one after the other
_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds, before each further try


class Lane:
    """Limits the calls in flight to one system: entering it takes one of the places."""

    def __init__(self, most: int, retries: int = 0) -> None:
        self._most = most
        self._retries = retries  # of a call, after its first attempt
        self._limit = float(most)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._not_before = 0.0
        self._slowed_at = 0.0
        self._failed = 0  # calls in a row
        self._tries = 0  # of a system that is down
        self._luck = Random(0)  # noqa: S311 (spreads retries)
        self.given_up: Fault | None = None

    @property
    def limit(self) -> int:
        """How many calls may be in flight now; one, while we see whether it is up again."""
        return 1 if self._tries else int(self._limit)

    async def __aenter__(self) -> None:
        """Wait for a place among the calls in flight, once the system accepts calls."""
        while self.given_up is None:
            wait = self._not_before - monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            elif self._in_flight < self.limit:
                break
            else:
                turn = asyncio.get_running_loop().create_future()
                self._waiting.append(turn)
                await turn
        self._in_flight += 1

    async def __aexit__(self, *_: object) -> None:
        """Make room for the next call."""
        self._in_flight -= 1
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        free = self.limit - self._in_flight if self.given_up is None else len(self._waiting)
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1

    def note_success(self) -> None:
        """Record that a call succeeded."""
        self._failed = self._tries = 0
        if self._limit < self._most:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)

    def note_throttling(self, began: float, fault: Fault) -> None:
        """Slow down, since the system accepts fewer calls; those of one moment count once."""
        if began >= self._slowed_at:
            self._slowed_at = monotonic()
            self._limit = max(1.0, self._limit / 2)
        if fault.retry_after is not None:
            self._hold(fault.retry_after)

    def note_failure(self, fault: Fault) -> None:
        """Record that a call has failed for good."""
        if not fault.outage:
            return
        self._failed += 1
        if self._failed < _TRIPS_AT or self._not_before > monotonic():
            return
        if self._tries == len(_PAUSES):
            self.given_up = fault
            self._wake()
            return
        self._hold(_PAUSES[self._tries])
        self._tries += 1

    def compute_backoff(self, attempt: int, fault: Fault) -> float:
        """Return the seconds before the next attempt of a call; the first attempt is number 0.

        A server that refuses the same call after the wait it asked for has promised too much:
        from then on its `Retry-After` is the least that is waited.
        """
        asked = fault.retry_after
        if asked is not None and attempt == 0:
            return asked
        longest = min(_LONGEST_BACKOFF, FIRST_BACKOFF * 2**attempt)
        return max(asked or 0.0, float(longest * self._luck.uniform(0.5, 1.0)))

    def is_last(self, attempt: int, fault: Fault) -> bool:
        """Say whether a call that failed is not attempted again."""
        too_long = (fault.retry_after or 0.0) > _LONGEST_WAIT
        return not fault.again or too_long or attempt >= self._retries

    def _hold(self, seconds: float) -> None:
        self._not_before = max(self._not_before, monotonic() + seconds)


class Asking:
    """Calls a model until a reply comes, or the attempts are used up."""

    def __init__(
        self,
        system: System,
        *,
        concurrency: int,
        retries: int,
        timeout_seconds: float,
        who: str = "the judge",
    ) -> None:
        self._who = who
        self._system = system
        self._lane = Lane(concurrency, retries)
        self._timeout = timeout_seconds
        self._deadlines = Deadlines(timeout_seconds)

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise the last fault."""
        attempt = 0
        while True:
            async with self._lane:
                if (down := self._lane.given_up) is not None:
                    raise Fault(down.kind, f"{down.message} (not called: {self._who} stayed down)")
                began = monotonic()
                try:
                    reply = await self._ask_once(call)
                except Fault as error:
                    fault = error
                else:
                    self._lane.note_success()
                    return reply
                if fault.kind == "rate_limit":
                    self._lane.note_throttling(began, fault)
                if self._lane.is_last(attempt, fault):
                    self._lane.note_failure(fault)
                    raise fault
            await asyncio.sleep(self._lane.compute_backoff(attempt, fault))
            attempt += 1

    async def _ask_once(self, call: Call) -> Reply:
        try:
            return await self._deadlines.keep(self._system(call))
        except TimeoutError:
            said = f"no reply in {self._timeout:g} s"
            raise Fault("timeout", said, again=True, outage=True) from None
        except Fault:
            raise
        except Exception as error:
            raise Fault("exception", f"{type(error).__name__}: {error}") from error
