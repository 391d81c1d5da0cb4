"""A model called through a batch API: calls are collected, sent together, and wait for replies.

The ledger remembers on disk which calls wait in which batch, so that nothing that was paid for is
lost. A line is written before calls are sent, when their batch has been taken, and when a call of
it has failed and must be sent again. A run that goes on finds its calls there and asks for their
batch instead of a new one; where only the sending is known, it looks at the provider for that
batch.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any, Protocol

from calipers.support.errors import make_write_error
from calipers.support.files import PRIVATE, Say
from calipers.systems.batches import MOST_CALLS
from calipers.systems.calls import Call, Fault, Reply, describe_error
from calipers.systems.http import encode_json

LEDGER_FILE = ".batches.jsonl"


@dataclass(frozen=True, slots=True)
class Sending:
    """Calls that were sent to the provider, whose batch is not known yet."""

    mark: str  # identifies their batch
    at: float  # seconds since 1970
    calls: tuple[str, ...]


class Ledger:
    """The batches of one system in a result folder."""

    def __init__(self, path: Path, system: str) -> None:
        self._path = path
        self._system = system
        self.batch_of: dict[str, str] = {}  # that a call waits in
        self.sending_of: dict[str, Sending] = {}  # of a call of which nothing further is known
        for line in _read_lines(path):
            if line.get("system") == system:
                self._apply(line)

    def announce(self, calls: list[str]) -> Sending:
        """Note that these calls are about to be sent."""
        sending = Sending(token_hex(8), time(), tuple(calls))
        line = {"mark": sending.mark, "at": sending.at, "sending": calls}
        self._write({"system": self._system, **line})
        return sending

    def add(self, batch: str, calls: list[str]) -> None:
        """Note that a batch with these calls has been taken."""
        self._write({"system": self._system, "batch": batch, "calls": calls})

    def remove(self, calls: list[str]) -> None:
        """Note that these calls wait in no batch: they failed in theirs, or none was taken."""
        if calls:
            self._write({"system": self._system, "failed": calls})

    def _apply(self, line: dict[str, Any]) -> None:
        if "sending" in line:
            sending = Sending(line["mark"], line["at"], tuple(line["sending"]))
            self.sending_of |= dict.fromkeys(sending.calls, sending)
        for call in line.get("calls", ()):
            self.batch_of[call] = line["batch"]
            self.sending_of.pop(call, None)
        for call in line.get("failed", ()):
            self.batch_of.pop(call, None)
            self.sending_of.pop(call, None)

    def _write(self, line: dict[str, Any]) -> None:
        self._apply(line)
        try:
            with open(self._path, "ab", opener=partial(os.open, mode=PRIVATE)) as file:
                file.write(b"\n" + json.dumps(line).encode())  # after a torn line, if any
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise make_write_error(self._path, error) from error


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the file; a torn one, of a process that was killed, is left out."""
    lines = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict):
            lines.append(read)
    return lines


_QUIET = 0.3  # seconds without a further call after which a batch goes out
_FIRST_WAIT, _LONGEST_WAIT, _GROWTH = 1.0, 60.0, 1.5  # seconds between two polls of a batch
_FEW_LOOKS = 4  # in a row that fail, or find nothing, until that is believed
_MOST_RESULTS = 2 * MOST_CALLS  # lines, of replies and of errors
_KEPT = "nothing is bought again: run again to look at {} again, or with --fresh to start over"
_IDENTITY = ("id", "model", "tier", "variant", "run")

Outcome = Reply | Fault


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """A batch as it was seen when it had ended."""

    name: str
    results: int | None = None  # that it says to have, which are not all where it was cut short
    files: tuple[str, ...] = ()  # that hold them, where the batch names them


class BatchRefused(Fault):
    """A batch that the provider has refused: none of its calls was made."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_request", message)


class BatchService(Protocol):
    """What a provider of batches can do."""

    async def make_request(self, call: Call) -> dict[str, Any]:
        """Return the body of a call."""

    async def submit(self, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Send bodies by name, and return the name of their batch, which can be told by a mark."""

    async def find_batch(self, sending: Sending, known: Collection[str]) -> str | None:
        """Return the batch of a sending, not one of those known; None if there is none."""

    async def look(self, batch: str) -> EndedBatch | None:
        """Return a batch once it has ended, None before; raise BatchRefused if it was refused."""

    def read_results(self, ended: EndedBatch) -> AsyncIterator[tuple[str, Outcome]]:
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
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended; where it broke, raise its error in everyone who waits."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)

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
            batch = await self._find(sending)
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            self._sought.pop(sending.mark)
            self._deliver(dict.fromkeys(sending.calls, _make_fault(error)))
            return
        bodies = self._sought.pop(sending.mark)
        if batch is None:
            self._ledger.remove(list(sending.calls))
            self._put({name: body for name, body in bodies.items() if name in self._waiting})
            return
        self._ledger.add(batch, list(sending.calls))
        self._say(f"{self._name}: {len(sending.calls):,} calls found in the batch {batch}")
        self._follow(batch)

    async def _find(self, sending: Sending) -> str | None:
        """Return the batch of a sending; None if several looks do not find one, or any at all."""
        for look in range(_FEW_LOOKS):
            await asyncio.sleep(_FIRST_WAIT * look)
            try:
                known = set(self._ledger.batch_of.values())
                if (batch := await self._service.find_batch(sending, known)) is not None:
                    return batch
            except Fault as fault:
                # A provider that does not list batches says so each time.
                if look == _FEW_LOOKS - 1 and (fault.kind != "bad_request" or fault.outage):
                    raise
        return None

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
        calls = [call for call, its_batch in self._ledger.batch_of.items() if its_batch == batch]
        outcomes: dict[str, Outcome] = {}
        try:
            await wait_until(lambda: self._collect(batch, calls, outcomes))
            missing: Fault = Fault("server", f"{batch} ended before it was answered", again=True)
            is_over = True
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            missing, is_over = _make_fault(error), isinstance(error, BatchRefused)
            if not is_over:  # its results may well be there: they are asked for again
                self._followed.discard(batch)
                missing = _keep_bought(missing, batch)
        outcomes_now: dict[str, Outcome] = {}
        unpaid: list[str] = []
        for name in calls:
            outcome = outcomes.get(name)
            if isinstance(outcome, Fault) and outcome.kind == "bad_response":
                outcome = _keep_bought(outcome, batch)  # it was answered, only we cannot read it
            elif is_over and not isinstance(outcome, Reply):
                unpaid.append(name)
            outcomes_now[name] = outcome or missing
        self._ledger.remove(unpaid)  # these go out again, in another batch
        self._deliver(outcomes_now)

    async def _collect(self, batch: str, calls: list[str], outcomes: dict[str, Outcome]) -> bool:
        """Read the results of a batch, and say whether it has ended.

        Raises:
            Fault: It has ended, and not all results that it should have are there.
        """
        if (ended := await self._service.look(batch)) is None:
            return False
        lines = 0
        async for name, outcome in self._service.read_results(ended):
            lines += 1
            if lines > _MOST_RESULTS:
                raise Fault("bad_response", f"{batch} has more results than calls")
            if self._ledger.batch_of.get(name) == batch:
                outcomes[name] = outcome
        missing = len(calls) - len(outcomes) if ended.results is None else ended.results - lines
        if missing > 0:
            raise Fault("bad_response", f"{batch} has ended, and {missing:,} results are missing")
        return True

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


async def wait_until(is_so: Callable[[], Awaitable[object]]) -> None:
    """Wait until a condition holds, polling ever less often; a few odd looks are waited out.

    Raises:
        Fault: So many looks in a row have failed; BatchRefused only if all of them say so.
    """
    wait = _FIRST_WAIT
    faults: list[Fault] = []
    while True:
        try:
            if await is_so():
                return
            faults.clear()
        except Fault as fault:
            faults.append(fault)
            if len(faults) == _FEW_LOOKS or (fault.outage and not fault.again):  # a rejected key
                raise next((f for f in faults if not isinstance(f, BatchRefused)), fault) from None
        await asyncio.sleep(wait)
        wait = min(_LONGEST_WAIT, wait * _GROWTH)


def _keep_bought(fault: Fault, batch: str) -> Fault:
    """Return the fault of a call that is not attempted again: its batch may hold its answer."""
    return Fault(fault.kind, f"{fault.message}; {_KEPT.format(batch)}")


def _make_fault(error: Exception) -> Fault:
    return error if isinstance(error, Fault) else Fault("exception", describe_error(error))


def _name_call(call: Call, body: Mapping[str, Any]) -> str:
    """Return a name that the call has in every run of the suite: its record's, and its body's."""
    of = {name: call.record.get(name) for name in _IDENTITY}
    return blake2b(encode_json([of, body]), digest_size=16).hexdigest()
