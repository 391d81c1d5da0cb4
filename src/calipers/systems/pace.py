"""The pace of calls to one system, and the attempts after a fault such as a 429.

The limit of calls in flight is halved when the system says that there are too many, and grows by
one with every round of good ones (additive increase, multiplicative decrease). A system whose calls
fail one after the other is left alone for a while, then tried with one call; if it stays down, the
rest of its calls are given up. What a server asks to wait (`Retry-After`) is kept to the time that
a call may take; a server that asks for more, time and again, is down.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from time import monotonic
from typing import Any, Self

from calipers.systems.calls import Call, Fault, Reply, System

LONGEST_WAIT = 600.0  # seconds; who asks for more has no attempt soon
_MOST_LONG_WAITS = 5  # one after the other, of a server that asks for longer ones
FIRST_BACKOFF = 0.25
_LONGEST_BACKOFF = 20.0
_TRIPS_AT = 5  # calls that failed one after the other
_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds, before each further try


class Lane:
    """Limits the calls in flight to one system: entering it takes one of the places."""

    def __init__(self, most: int, retries: int = 0, longest_wait: float = LONGEST_WAIT) -> None:
        self._most = most
        self._retries = retries  # of a call, after its first attempt
        self._longest_wait = min(longest_wait, LONGEST_WAIT)
        self._long_waits = 0  # in a row
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
        """The number of calls that may be in flight now; one to try a system that was down."""
        return 1 if self._tries else int(self._limit)

    async def __aenter__(self) -> Self:
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
        return self

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

    def settle(self, attempt: int, began: float, fault: Fault | None) -> bool:
        """Record how an attempt ended, the first being number 0; return True if it was the last.

        A refusal such as a 429 slows the lane down; a call that failed for good may close it.
        """
        if fault is None:
            self._failed = self._tries = self._long_waits = 0
            if self._limit < self._most:
                self._limit = min(float(self._most), self._limit + 1 / self._limit)
            return True
        if fault.kind == "rate_limit":
            self._note_throttling(began, fault)
        too_long = (fault.retry_after or 0.0) > LONGEST_WAIT
        is_over = attempt >= self._retries or self.given_up is not None
        if fault.again and not too_long and not is_over:
            return False
        self._note_failure(fault)
        return True

    def _note_throttling(self, began: float, fault: Fault) -> None:
        """Slow down, since the system accepts fewer calls; those of one moment count once."""
        asked = fault.retry_after or 0.0
        if began >= self._slowed_at:
            self._slowed_at = monotonic()
            self._limit = max(1.0, self._limit / 2)
            self._long_waits = self._long_waits + 1 if asked > self._longest_wait else 0
            if self._long_waits > _MOST_LONG_WAITS:
                self.given_up = fault
                self._wake()
                return
        self._hold(min(asked, self._longest_wait))

    def _note_failure(self, fault: Fault) -> None:
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
        asked = min(fault.retry_after or 0.0, self._longest_wait)
        if fault.retry_after is not None and attempt == 0:
            return asked
        longest = min(_LONGEST_BACKOFF, FIRST_BACKOFF * 2**attempt)
        return max(asked, float(longest * self._luck.uniform(0.5, 1.0)))

    def _hold(self, seconds: float) -> None:
        self._not_before = max(self._not_before, monotonic() + seconds)


class RetryingModel:
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
        self._lane = Lane(concurrency, retries, timeout_seconds)
        self._timeout = timeout_seconds

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise the last fault."""
        attempt = 0
        while True:
            async with self._lane as lane:
                if lane.given_up is not None:
                    raise make_not_called(lane.given_up, self._who)
                began = monotonic()
                try:
                    reply = await ask_in_time(self._system, call, self._timeout)
                except Fault as error:
                    fault = error.forget_origin()
                else:
                    lane.settle(attempt, began, None)
                    return reply
                if lane.settle(attempt, began, fault):
                    raise fault
            await asyncio.sleep(lane.compute_backoff(attempt, fault))
            attempt += 1


def make_not_called(fault: Fault, who: str) -> Fault:
    """Return the fault of a call that is not made, since `who` was down for so long."""
    return Fault(fault.kind, f"{fault.message} (not called: {who} stayed down)")


async def ask_in_time(
    system: System,
    call: Call,
    seconds: float | None,
    *,
    is_worth_another: Callable[[TimeoutError], bool] = lambda _: True,
) -> Reply:
    """Return the reply of one attempt within so many seconds.

    Raises:
        Fault: Whatever went wrong; after a timeout, one to try again if it is worth another.
    """
    try:
        async with asyncio.timeout(seconds):
            return await system(call)
    except TimeoutError as late:
        again = is_worth_another(late)
        problem = "no reply" if seconds is None else f"no reply in {seconds:g} s"
        raise Fault("timeout", problem, again=again, outage=again) from None
    except Fault:
        raise
    except Exception as error:
        raise Fault("exception", f"{type(error).__name__}: {error}") from error


def run_to_end(calls: Coroutine[Any, Any, None]) -> None:
    """Run to the end, also within a notebook, whose own loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run_here(calls)
        return
    raised: list[BaseException] = []

    def run_in_thread() -> None:
        try:
            _run_here(calls)
        except BaseException as error:  # noqa: BLE001 (is raised again below)
            raised.append(error)

    thread = threading.Thread(target=run_in_thread, name="calipers-run")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _run_here(calls: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        with _handle_sigterm():
            await calls

    try:
        asyncio.run(main())
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@contextmanager
def _handle_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, inside the block."""
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
