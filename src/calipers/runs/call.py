"""The calls of a run, many at a time: attempts, timeouts, and a line in the journal each.

`open_systems` opens what the suite names, `Calling` makes the calls. Answers that wait for their
judges are written to a file beside the journal (`Unjudged`). Should the run end before they are
judged, they go into the journal with judgments that failed, and only the judges are asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from calipers.judges.judge_spec import JudgeSpec
from calipers.records.nested_fields import FAILED_JUDGMENT, add_judgments, sum_judging_cost
from calipers.runs.call_records import ReplyReader
from calipers.runs.plan import CallPlace
from calipers.runs.prepare import Prepared
from calipers.runs.resume import CALL_HAS_FAILED, CALL_IS_DONE, CallChooser, State
from calipers.runs.suite import open_tools
from calipers.support.errors import require_extra
from calipers.support.files import Say
from calipers.systems.batches import MOST_CALLS
from calipers.systems.budget import Budget, find_pricing
from calipers.systems.calls import Call, Fault, System, make_time_fields
from calipers.systems.conversations import (
    Conversation,
    SimulatedUser,
    SpokenText,
    Tool,
    sum_user_cost,
)
from calipers.systems.functions import OwnLoop, is_unbegun
from calipers.systems.http import Endpoint, open_session
from calipers.systems.images import list_images
from calipers.systems.journal import CACHED, Journal
from calipers.systems.keys import MaskedSystem, hash_servers, make_mask, read_api_key
from calipers.systems.models import CachedModel, mask_errors, open_batch_model, open_model
from calipers.systems.otel import SpanExporter
from calipers.systems.pace import Lane, RetryingModel, ask_in_time, make_not_called
from calipers.systems.redact import Mask
from calipers.systems.spec import SystemSpec
from calipers.systems.tool_replies import open_tool_replies

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from calipers.systems.command_guard import CommandGuard
    from calipers.systems.mcp_servers import McpTool

_REASON = "not judged: the run ended before"


class Unjudged:
    """The file of answers that wait for their judges."""

    def __init__(
        self, path: Path, judges: Sequence[JudgeSpec], rubric_hashes: Sequence[str]
    ) -> None:
        self._path = path
        self._owed = tuple(_make_pending(judges, rubric_hashes))
        self._file: Journal | None = None

    def add(self, record: Mapping[str, Any]) -> None:
        """Write down the answer of a call."""
        self._file = self._file or Journal(self._path)
        self._file.add(record)

    def move_into(self, journal: Journal, is_done: Callable[[Mapping[str, Any]], bool]) -> int:
        """Append the answers that are not done, and remove the file; return how many there were."""
        if self._file is None and not self._path.exists():
            return 0
        self._file = self._file or Journal(self._path)
        moved = 0
        for record in self._file.read_records():
            if not is_done(record):
                journal.add(add_judgments(record, [dict(judgment) for judgment in self._owed]))
                moved += 1
        self._file.close()
        self._file = None
        self._path.unlink(missing_ok=True)
        return moved


def _make_pending(
    judges: Sequence[JudgeSpec], rubric_hashes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a failed judgment for each sample of each judge."""
    return [
        {
            "judge": judge.name,
            "rubric": judge.rubric,
            "rubric_hash": rubric_hash,
            "model": judge.model,
            "scores": None,
            "reason": _REASON,
            "flags": [],
            **({"sample": sample, "samples": judge.samples} if judge.samples > 1 else {}),
            FAILED_JUDGMENT: True,
        }
        for judge, rubric_hash in zip(judges, rubric_hashes, strict=True)
        for sample in range(1, judge.samples + 1)
    ]


def note_unjudged(count: int) -> Iterator[str]:
    """Yield how many answers still lack a judgment, if any."""
    if count:
        what, them = ("1 answer", "it") if count == 1 else (f"{count:,} answers", "these")
        yield f"judges failed on {what}: run again to have {them} judged, and only judged"


@asynccontextmanager
async def open_systems(
    of: Prepared, say: Say, *, batches: Path, tool_replies: Path, fresh: bool
) -> AsyncIterator[list[System]]:
    """Open the suite's systems, in order.

    Args:
        of: The suite.
        say: Is called with notices of problems.
        batches: The file that remembers which calls wait in batches of a provider.
        tool_replies: The file of what servers' tools replied in calls that are not done.
        fresh: Whether every call is made, also where the suite's cache has a reply.
    """
    suite = of.suite
    async with AsyncExitStack() as stack:
        opening = _SystemOpener(of, say, batches, stack)
        if suite.user is not None or any(spec.model or spec.http for spec in suite.systems):
            opening.session = await stack.enter_async_context(open_session())
        offers = bool(suite.mcp) and any(spec.model for spec in suite.systems)
        if any(spec.command for spec in (*suite.systems, *(suite.mcp if offers else ()))):
            from calipers.systems.command_guard import guard_commands  # noqa: PLC0415 (only then)

            opening.guard = stack.enter_context(guard_commands())
        if any(spec.python for spec in suite.systems):
            opening.loop = stack.enter_context(OwnLoop())
        mask = make_mask(suite.served)
        with mask_errors(mask):
            tools: dict[str, Tool | McpTool] = {}
            tools |= open_tools(of.base / suite.tools) if suite.tools else {}
            replies = None
            if offers:
                tools |= await opening.open_servers(tools)
                replies = stack.enter_context(open_tool_replies(tool_replies, mask))
            user = opening.open_user()
            opened = [
                opening.add_cache(opening.open(spec), spec, mask, fresh=fresh)
                for spec in suite.systems
            ]
        yield [
            MaskedSystem(
                Conversation(system, tools if spec.model else {}, suite.max_turns, user, replies),
                mask,
            )
            for system, spec in zip(opened, suite.systems, strict=True)
        ]


@dataclass(slots=True)
class _SystemOpener:
    """Opens systems; resources that they share are there where one of them needs these."""

    of: Prepared
    say: Say
    batches: Path
    stack: AsyncExitStack
    session: ClientSession | None = None
    guard: CommandGuard | None = None
    loop: OwnLoop | None = None

    @property
    def weighs(self) -> bool:
        confidence = self.of.suite.confidence
        return confidence is not None and confidence.logprobs

    async def open_servers(self, tools: Mapping[str, Tool | McpTool]) -> dict[str, McpTool]:
        """Start the servers of tools, and offer these to models beside those that are there."""
        require_extra("mcp: the protocol is not installed", extra="mcp", modules=("mcp",))
        from calipers.systems.mcp_servers import (  # noqa: PLC0415 (only where there are servers)
            make_collision,
            open_servers,
        )

        opened = open_servers(self.of.suite.mcp, self.of.base, self.guard)
        told, found = await self.stack.enter_async_context(opened)
        for name in tools:
            if name in found:
                file = str(self.of.suite.tools)
                raise make_collision(name, f"{file} and {found[name].server.name}")
        self.of.plan.add_tools(told)
        return found

    def open_user(self) -> SimulatedUser | None:
        """Return the model that plays the user, with attempts of its own."""
        suite, spec = self.of.suite, self.of.suite.user
        if spec is None:
            return None
        assert self.session is not None
        asking = RetryingModel(
            SpokenText(open_model(spec.model, spec, self.session, logprobs=False)),
            concurrency=suite.concurrency,
            retries=suite.retries,
            timeout_seconds=suite.timeout_seconds,
            who="it",
        )
        return SimulatedUser(asking, spec.model, find_pricing(spec))

    def add_cache(self, system: System, of: SystemSpec, mask: Mask, *, fresh: bool) -> System:
        """Return the model with a cache of its replies, if the suite names one."""
        suite = self.of.suite
        if suite.cache is None or of.model is None:
            return system
        asked: dict[str, Any] = {"model": of.model, "base_url": of.base_url}
        asked |= {"logprobs": self.weighs, **hash_servers([of])}
        return CachedModel(
            system, self.of.base / suite.cache, asked, self.say, mask, reads=not fresh
        )

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
            return Endpoint(self.session, system.http, read_api_key(system))
        assert system.model is not None
        if system.mode == "batch":
            model = open_batch_model(
                system,
                self.session,
                self.batches,
                self.say,
                logprobs=self.weighs,
                timeout_seconds=self.of.suite.timeout_seconds,
            )
            self.stack.push_async_callback(model.close)
            return model
        return open_model(system.model, system, self.session, logprobs=self.weighs)

    def _open_python(self, system: SystemSpec, reference: str) -> System:
        """Return a function or an agent: at hand, in FILE.py:NAME, or registered by a plug-in."""
        from calipers.support.user_code import load_object  # noqa: PLC0415 (only for functions)
        from calipers.systems.agents.system import open_python  # noqa: PLC0415
        from calipers.systems.otel import open_collector  # noqa: PLC0415
        from calipers.systems.spec import SYSTEMS  # noqa: PLC0415

        assert self.loop is not None
        function: Any = self.of.functions.get(system.name)
        if function is None and ":" in reference:
            function = load_object(reference, self.of.base)
        elif function is None:
            function = SYSTEMS.get(reference).function
        spans = open_collector() if system.otel else None
        return open_python(function, reference, self.loop, self.say, spans)


_MAY_COST = ("timeout", "bad_response", "content_filter")  # the provider may well charge for these
Judging = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Grades a finished record before it is written; a judge that fails says so in the record."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call: its fields, or the fault."""

    fields: Mapping[str, Any]
    attempts: int
    seconds: float
    fault: Fault | None = None
    billed_usd: float = 0.0  # by what failed, as far as it is known
    is_cached: bool = False


@dataclass(kw_only=True)
class CallMaker:
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
        self._mask = make_mask(suite.served)
        self._reading = ReplyReader(suite, self.of.deciding, self.of.given, self.state.predicted)
        self._is_batch = [spec.mode == "batch" for spec in suite.systems]
        self._most = [MOST_CALLS if batch else suite.concurrency for batch in self._is_batch]
        self._lanes = [Lane(most, suite.retries, suite.timeout_seconds) for most in self._most]
        self._slots = asyncio.Semaphore(suite.concurrency)
        self._limits = [None if is_batch else suite.timeout_seconds for is_batch in self._is_batch]
        self._tracing = SpanExporter()

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
                        down = make_not_called(lane.given_up, "the system")
                        tried = CallOutcome({}, 0, 0, down)
                        record = self._make_record(system, place, tried)
                        self._write(system, number, call, reserved, tried, record)
                        return
                    began = monotonic()
                    first = began if first is None else first
                    tried = await self._attempt(system, call, attempt + 1)
                    took = monotonic() - first
                    billed += tried.billed_usd
                    fault = tried.fault
                    is_over = lane.settle(attempt, began, fault)
                    if fault is not None and is_over:
                        record = self._make_record(system, place, tried)
                        self._write(system, number, call, reserved, tried, record, took, billed)
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

    async def _attempt(self, system: int, call: Call, attempts: int) -> CallOutcome:
        """Return the outcome of one attempt, bounded in time."""
        began = perf_counter()
        # A function that hangs in its thread would hang again.
        hangs = self._suite.systems[system].python is not None
        try:
            reply = await ask_in_time(
                self.systems[system],
                call,
                self._limits[system],
                is_worth_another=is_unbegun if hangs else lambda _: True,
            )
            seconds = perf_counter() - began if reply.seconds is None else reply.seconds
            fields = self._add_cost(system, self._reading.read_fields(call, reply))
            return CallOutcome(fields, attempts, seconds, is_cached=reply.is_cached)
        except Fault as error:
            fault = error.forget_origin()
        except Exception as error:  # noqa: BLE001 (a reply may hold anything, the run must not fail)
            fault = Fault("exception", f"{type(error).__name__}: {error}")
        return CallOutcome(
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
        tried: CallOutcome,
        record: dict[str, Any],
        took: float = 0.0,
        billed: float = 0.0,
    ) -> None:
        """Write the record into the journal, then add it to the sums."""
        self.journal.add(record)
        states = self.state.calls[system]
        if states[number] == CALL_HAS_FAILED:
            self.state.tally.forget_failed()
        states[number] = CALL_IS_DONE if tried.fault is None else CALL_HAS_FAILED
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

    def _make_record(self, system: int, place: CallPlace, tried: CallOutcome) -> dict[str, Any]:
        record = {**self.of.plan.identify(system, place), **self.of.plan.tasks.keep(place.task)}
        if tried.fault is not None:
            message = self._mask.mask_message(tried.fault.message, tried.fault.most)
            record["error"] = f"{tried.fault.kind}: {message}"
        if tried.attempts and not self._is_batch[system]:  # the time of a batch is no latency
            record |= make_time_fields(tried.seconds)
        if tried.attempts > 1:
            record["attempts"] = tried.attempts
        if tried.is_cached:
            record[CACHED] = True
        return self._mask.mask_value({**record, **tried.fields})  # type: ignore[no-any-return]


def _is_bounded(call: Call) -> bool:
    """Return True if the prompt and the settings tell the most that a call may cost."""
    return not call.is_open_ended and not any(list_images(call.messages))
