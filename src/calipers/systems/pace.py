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

from calipers.systems.calls import Fault

LONGEST_WAIT = 600.0  # seconds that a server may ask for
FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 20.0
_TRIPS_AT = 5  # calls that failed one after the other
_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds, before each further try


class Lane:
    """Limits the calls in flight to one system: entering it takes one of the places."""

    def __init__(self, most: int) -> None:
        self._most = most
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

    def _hold(self, seconds: float) -> None:
        self._not_before = max(self._not_before, monotonic() + seconds)
