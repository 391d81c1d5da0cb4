"""A model with its own pace: attempts, timeouts, and waits between them."""

from __future__ import annotations

import asyncio
from time import monotonic

from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.deadlines import Deadlines
from calipers.systems.pace import LONGEST_WAIT, Lane


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
        self._lane = Lane(concurrency)
        self._retries = retries
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
                if self._is_last(attempt, fault):
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

    def _is_last(self, attempt: int, fault: Fault) -> bool:
        too_long = fault.retry_after is not None and fault.retry_after > LONGEST_WAIT
        return not fault.again or too_long or attempt >= self._retries
