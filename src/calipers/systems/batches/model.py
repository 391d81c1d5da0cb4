"""A model called through a batch API: calls are collected, sent together, and wait for replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from hashlib import blake2b
from typing import Any, Protocol

from calipers.support.cache import Say
from calipers.systems.batches import MOST_CALLS
from calipers.systems.batches.ledger import Ledger, Sending
from calipers.systems.batches.requests import BatchLost
from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.wire import as_json

_QUIET = 0.3  # seconds without a further call after which a batch goes out
_FIRST_WAIT, _LONGEST_WAIT, _GROWTH = 1.0, 60.0, 1.5  # seconds between two polls of a batch
_IDENTITY = ("id", "model", "tier", "run")

Outcome = Reply | Fault


class BatchService(Protocol):
    """What a provider of batches can do."""

    async def make_request(self, call: Call) -> dict[str, Any]:
        """Return the body of a call."""

    async def submit(self, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Send bodies by name, and return the name of their batch, which can be told by a mark."""

    async def find_batch(self, sending: Sending, known: Collection[str]) -> str | None:
        """Return the batch of a sending, not one of those known; None if there is none."""

    async def is_done(self, batch: str) -> bool:
        """Say whether a batch has ended; raise BatchLost if it has no results."""

    def read_results(self, batch: str) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the name and the outcome of each call."""


class BatchModel:
    """Answers a call when its batch has come back."""

    def __init__(self, service: BatchService, ledger: Ledger, say: Say, name: str) -> None:
        self._service = service
        self._ledger = ledger
        self._say = say
        self._name = name
        self._unsent: dict[str, dict[str, Any]] = {}
        self._sought: dict[str, dict[str, dict[str, Any]]] = {}  # bodies by the mark of a sending
        self._waiting: dict[str, asyncio.Future[Reply]] = {}
        self._arrived: dict[str, Reply] = {}  # of calls that are not asked for yet
        self._followed: set[str] = set()  # batches that are looked at, or have ended
        self._tasks: set[asyncio.Task[None]] = set()
        self._came = asyncio.Event()
        self._gathers = False

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, however long its batch takes; raise a Fault where it failed."""
        body = await self._service.make_request(call)
        name = _name_call(call, body)
        if (known := self._arrived.pop(name, None)) is not None:
            return known
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        try:
            if (batch := self._ledger.batch_of.get(name)) is not None:
                self._follow(batch)
            elif (sending := self._ledger.sending_of.get(name)) is not None:
                self._seek(sending, name, body)
            else:
                self._put({name: body})
            return await future
        finally:
            self._waiting.pop(name, None)
            self._unsent.pop(name, None)

    async def close(self) -> None:
        """Stop looking; what waits at the provider stays in the ledger."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _put(self, bodies: Mapping[str, dict[str, Any]]) -> None:
        self._unsent |= bodies
        self._came.set()
        if bodies and not self._gathers:
            self._gathers = True
            self._begin(self._gather())

    def _seek(self, sending: Sending, name: str, body: dict[str, Any]) -> None:
        """Look, once for all its calls, for the batch of a sending whose fate is not known."""
        if sending.mark not in self._sought:
            self._sought[sending.mark] = {}
            self._begin(self._look_for(sending))
        self._sought[sending.mark][name] = body

    async def _look_for(self, sending: Sending) -> None:
        """Follow the batch that the provider has taken, or send the calls again if it has none."""
        try:
            known = set(self._ledger.batch_of.values())
            batch = await self._service.find_batch(sending, known)
        except Fault as fault:
            if fault.again:  # it may well be there: it is looked for again
                self._sought.pop(sending.mark)
                self._deliver(dict.fromkeys(sending.calls, fault))
                return
            batch = None  # the provider does not list batches
        bodies = self._sought.pop(sending.mark)
        if batch is None:
            self._ledger.remove(list(sending.calls))
            self._put({name: body for name, body in bodies.items() if name in self._waiting})
            return
        self._ledger.add(batch, list(sending.calls))
        self._say(f"{self._name}: {len(sending.calls):,} calls found in the batch {batch}")
        self._follow(batch)

    async def _gather(self) -> None:
        """Send what has come as soon as nothing more comes for a moment, or the batch is full."""
        while self._unsent:
            self._came.clear()
            if len(self._unsent) < MOST_CALLS:
                try:
                    await asyncio.wait_for(self._came.wait(), _QUIET)
                except TimeoutError:
                    pass
                else:
                    continue
            some = dict(list(self._unsent.items())[:MOST_CALLS])
            self._unsent = {k: v for k, v in self._unsent.items() if k not in some}
            await self._send(some)
        self._gathers = False

    async def _send(self, some: Mapping[str, Mapping[str, Any]]) -> None:
        sending = self._ledger.announce(list(some))
        try:
            batch = await self._service.submit(some, sending.mark)
        except Fault as fault:
            if not fault.again:  # it has been refused for certain
                self._ledger.remove(list(some))
            self._deliver(dict.fromkeys(some, fault))
            return
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            unknown = Fault("exception", f"{type(error).__name__}: {error}")
            self._deliver(dict.fromkeys(some, unknown))
            return
        self._ledger.add(batch, list(some))
        self._say(f"{self._name}: {len(some):,} calls sent in the batch {batch}")
        self._follow(batch)

    def _follow(self, batch: str) -> None:
        if batch not in self._followed:
            self._followed.add(batch)
            self._begin(self._wait_for(batch))

    async def _wait_for(self, batch: str) -> None:
        outcomes: dict[str, Outcome] = {}
        try:
            await wait_until(lambda: self._service.is_done(batch))
            async for name, outcome in self._service.read_results(batch):
                outcomes[name] = outcome  # noqa: PERF403 (those before a fault count)
            ended = True
            missing = Fault("bad_response", f"{batch} has no result for it", again=True)
        except Fault as fault:
            missing, ended = fault, isinstance(fault, BatchLost)
            if not ended:  # the batch may well be there: it is asked for again
                self._followed.discard(batch)
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            missing, ended = Fault("bad_response", f"{type(error).__name__}: {error}"), False
        calls = [call for call, its_batch in self._ledger.batch_of.items() if its_batch == batch]
        found = {name: outcomes.get(name, missing) for name in calls}
        if ended:  # failed calls go out again, in another batch
            self._ledger.remove([name for name, each in found.items() if isinstance(each, Fault)])
        self._deliver(found)

    def _deliver(self, outcomes: Mapping[str, Outcome]) -> None:
        for name, outcome in outcomes.items():
            future = self._waiting.get(name)
            if future is None:
                if isinstance(outcome, Reply):
                    self._arrived[name] = outcome
            elif not future.done():
                if isinstance(outcome, Reply):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)


async def wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds, polling ever less often; temporary faults are waited out."""
    wait = _FIRST_WAIT
    while True:
        try:
            if await is_so():
                return
        except Fault as fault:
            if not fault.again:
                raise
        await asyncio.sleep(wait)
        wait = min(_LONGEST_WAIT, wait * _GROWTH)


def _name_call(call: Call, body: Mapping[str, Any]) -> str:
    """Return a name that the call has in every run of the suite: its record's, and its body's."""
    of = {name: call.record.get(name) for name in _IDENTITY}
    return blake2b(as_json([of, body]), digest_size=16).hexdigest()
