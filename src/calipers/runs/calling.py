"""The calls of a run, many at a time: attempts, timeouts, and a line in the journal each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from time import monotonic, perf_counter
from typing import Any

from calipers.records.judgment_shape import sum_judging_cost
from calipers.runs.plan import CallPlace
from calipers.runs.preparing import Prepared
from calipers.runs.records import ReplyReader
from calipers.runs.state import DONE, FAILED, CallChooser, State
from calipers.runs.tracing import Tracing
from calipers.runs.unjudged import Unjudged
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.batches import MOST_CALLS
from calipers.systems.budget import Budget
from calipers.systems.calls import Call, Fault, System, time_fields
from calipers.systems.deadlines import Deadlines
from calipers.systems.images import list_images
from calipers.systems.journal import Journal
from calipers.systems.own_loop import is_unbegun
from calipers.systems.pace import Lane
from calipers.systems.secrets import mask_for
from calipers.systems.simulated_user import sum_user_cost

_MAY_COST = ("timeout", "bad_response", "content_filter")  # the provider may well charge for these
Judging = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Grades a finished record before it is written; a judge that fails says so in the record."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """How a call ended."""

    fields: Mapping[str, Any]
    attempts: int
    seconds: float
    fault: Fault | None = None
    billed_usd: float = 0.0  # by what failed, as far as it is known


@dataclass(kw_only=True)
class Calling:
    """Makes the calls of a plan that are still open."""

    of: Prepared
    systems: Sequence[System]
    state: State
    chooser: CallChooser
    journal: Journal
    budget: Budget
    judge: Judging | None  # None without judges
    unjudged: Unjudged  # where answers wait for the judges

    def __post_init__(self) -> None:
        suite = self._suite = self.of.suite
        self._mask = mask_for(suite.served)
        self._reading = ReplyReader(suite, self.state.predicted)
        self._is_batch = [spec.mode == "batch" for spec in suite.systems]
        self._most = [MOST_CALLS if batch else suite.concurrency for batch in self._is_batch]
        self._lanes = [Lane(most, suite.retries) for most in self._most]
        self._slots = asyncio.Semaphore(suite.concurrency)
        self._deadlines = [
            Deadlines(None if is_batch else suite.timeout_seconds) for is_batch in self._is_batch
        ]
        self._tracing = Tracing()

    async def all(self) -> None:
        """Make all calls: each system has its own workers, so that none waits for another."""
        async with asyncio.TaskGroup() as workers:
            for system in range(len(self.systems)):
                numbers = self.chooser.calls(system)
                for _ in range(self._most[system]):
                    if (first := next(numbers, None)) is None:
                        break
                    workers.create_task(self._work(system, first, numbers))

    async def _work(self, system: int, number: int | None, others: Iterator[int]) -> None:
        while number is not None and not self.budget.is_spent:
            place = self.of.plan.place(number)
            call = self.of.plan.call(system, place)
            reserved = await self.budget.reserve(
                system,
                self.of.prices[system] if _is_bounded(call) else None,
                call.prompt,
                call.settings,
            )
            if reserved is None:
                return
            try:
                await self._finish(system, number, place, call, reserved)
            except BaseException:
                self.budget.release(reserved)
                raise
            await self.chooser.ready()
            number = next(others, None)

    async def _finish(
        self, system: int, number: int, place: CallPlace, call: Call, reserved: float
    ) -> None:
        """Attempt a call until it succeeds or cannot; it is in flight until its line is flushed."""
        lane = self._lanes[system]
        attempt = 0
        first: float | None = None  # when its first attempt began
        billed = 0.0  # by attempts that failed
        while True:
            is_in_flight = False
            try:
                async with lane:
                    if not self._is_batch[system]:
                        await self._slots.acquire()
                        is_in_flight = True
                    if lane.given_up is not None:
                        tried = Attempted({}, 0, 0, _add_not_called(lane.given_up))
                        record = self._make_record(system, place, tried)
                        self._write(system, number, call, reserved, tried, record)
                        return
                    began = monotonic()
                    first = began if first is None else first
                    tried = await self._attempt(system, call, attempt + 1)
                    took = monotonic() - first
                    billed += tried.billed_usd
                    fault = tried.fault
                    if fault is None:
                        lane.note_success()
                    elif fault.kind == "rate_limit":
                        lane.note_throttling(began, fault)
                    if fault is not None and lane.is_last(attempt, fault):
                        record = self._make_record(system, place, tried)
                        self._write(system, number, call, reserved, tried, record, took, billed)
                        lane.note_failure(fault)
                        return
                if fault is None:
                    record = await self._check_record(self._make_record(system, place, tried))
                    if self.judge is not None:
                        self.unjudged.add(record)
                        record = await self._check_record(await self.judge(record))
                    self._write(system, number, call, reserved, tried, record, took, billed)
                    return
            finally:
                if is_in_flight:
                    self._slots.release()
            await asyncio.sleep(lane.compute_backoff(attempt, fault))
            attempt += 1

    async def _check_record(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record with the results of its checks; a user's function may take time."""
        checks = self.of.checks
        return await asyncio.to_thread(checks, record) if checks else record

    async def _attempt(self, system: int, call: Call, attempts: int) -> Attempted:
        """Return the outcome of one attempt, bounded in time."""
        began = perf_counter()
        try:
            reply = await self._deadlines[system].keep(self.systems[system](call))
            seconds = perf_counter() - began
            fields = self._add_cost(system, self._reading.read_fields(call, reply))
            return Attempted(fields, attempts, seconds)
        except Fault as error:
            fault = error
        except TimeoutError as late:
            # A function that hangs in its thread would hang again.
            again = self._suite.systems[system].python is None or is_unbegun(late)
            said = f"no reply in {self._suite.timeout_seconds:g} s"
            fault = Fault("timeout", said, again=again, outage=again)
        except Exception as error:  # noqa: BLE001 (a system may fail in any way, the run must not)
            fault = Fault("exception", f"{type(error).__name__}: {error}")
        return Attempted(
            {}, attempts, perf_counter() - began, fault, self._sum_billed(system, fault.usage)
        )

    def _sum_billed(self, system: int, usage: Mapping[str, Any]) -> float:
        """Return what a conversation cost until it failed, as far as that is known."""
        cost = self._add_cost(system, dict(usage)).get("cost_usd") or 0.0
        return float(cost) + sum_user_cost(usage)

    def _add_cost(self, system: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with their cost, if the system has not given it."""
        pricing = self.of.prices[system]
        if fields.get("cost_usd") is None and pricing is not None:
            cost = pricing.compute_cost(fields)
            return fields if cost is None else {**fields, "cost_usd": cost}
        return fields

    def _write(
        self,
        system: int,
        number: int,
        call: Call,
        reserved: float,
        tried: Attempted,
        record: dict[str, Any],
        took: float = 0.0,
        billed: float = 0.0,
    ) -> None:
        """Write the record into the journal, then add it to the sums."""
        self.journal.add(record)
        states = self.state.calls[system]
        if states[number] == FAILED:
            self.state.tally.forget_failed()
        states[number] = DONE if tried.fault is None else FAILED
        self.state.tally.add(record)
        self.state.note_judgments(system, number, record)
        self.chooser.take(system, number, record)
        cost, judging = record.get("cost_usd"), sum_judging_cost(record)
        if tried.fault is not None and tried.fault.kind not in _MAY_COST:
            cost = 0.0
        if cost is not None:
            cost += judging + sum_user_cost(record) + billed
        elif billed:
            cost = max(reserved, billed)
        prompt_tokens = record.get("prompt_tokens")
        self.budget.settle(system, reserved, cost, call.prompt, prompt_tokens, judging=judging)
        self._tracing.record(self._suite.systems[system], record, took, call.settings)

    def _make_record(self, system: int, place: CallPlace, tried: Attempted) -> dict[str, Any]:
        record = {**self.of.plan.identify(system, place), **self.of.plan.tasks.keep(place.task)}
        if tried.fault is not None:
            message = self._mask.mask_message(tried.fault.message, tried.fault.most)
            record["error"] = f"{tried.fault.kind}: {message}"
        if tried.attempts and not self._is_batch[system]:  # the time of a batch is no latency
            record |= time_fields(tried.seconds)
        if tried.attempts > 1:
            record["attempts"] = tried.attempts
        return self._mask.mask_value({**record, **tried.fields})  # type: ignore[no-any-return]


def _is_bounded(call: Call) -> bool:
    """Say whether the prompt and the settings tell the most that a call may cost."""
    return not call.is_open_ended and not any(list_images(call.messages))


def _add_not_called(fault: Fault) -> Fault:
    return Fault(fault.kind, f"{fault.message} (not called: the system stayed down)")
