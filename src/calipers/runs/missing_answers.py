"""Make the calls and judgments that a folder lacks; what is there is paid for and not repeated."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, cast

from calipers.records.nested_fields import FAILED_JUDGMENT, get_judgments, sum_judging_cost
from calipers.runs.call import CallMaker, Judging, Unjudged, open_systems
from calipers.runs.code_under_test import hash_imported
from calipers.runs.folder import FRESH, IMPORTED, Folder
from calipers.runs.plan import Key
from calipers.runs.prepare import Prepared
from calipers.runs.resume import (
    CALL_IS_DONE,
    REPLACED_COUNTS,
    AllCalls,
    RunManifest,
    State,
    identify_record,
)
from calipers.runs.shards import WHOLE
from calipers.support.files import Say
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal, Watch
from calipers.systems.keys import MaskedLines, make_mask
from calipers.systems.pace import run_to_end

if TYPE_CHECKING:
    from calipers.judges.panels import WorkingJudge
    from calipers.runs.early_stopping import EarlyStopping

Record = dict[str, Any]


class Rejudger:
    """Asks the judges that failed, and appends the record again."""

    def __init__(
        self, judges: Sequence[WorkingJudge], journal: Journal, budget: Budget, of: Prepared
    ) -> None:
        self._check = of.checks
        self._judges = {judge.judge.name: judge for judge in judges}
        self._journal = journal
        self._budget = budget
        self._mask = make_mask(of.suite.served)
        self._systems = {system.name: at for at, system in enumerate(of.suite.systems)}
        self._concurrency = of.suite.concurrency

    async def all(self) -> None:
        """Judge them, many at a time."""
        records = self._find_failed()
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._work(records))

    def _find_failed(self) -> Iterator[Record]:
        """Yield the records as they are now; what is appended meanwhile is not among them."""
        last: dict[Key, tuple[int, int]] = {}
        end = 0
        for start, end, record in self._journal.read_lines():
            if record.get("error") is None and any(
                e.get(FAILED_JUDGMENT) for e in get_judgments(record)
            ):
                last[identify_record(record)] = (start, end)
            else:
                last.pop(identify_record(record), None)
        spans = set(last.values())
        for start, upto, record in self._journal.read_lines():
            if start >= end:
                return
            if (start, upto) in spans:
                yield record

    async def _work(self, records: Iterator[Record]) -> None:
        for record in records:
            system = self._systems[str(record["model"])]
            reserved = await self._budget.reserve_judging(system)
            if reserved is None:
                return
            try:
                judgments = await self._judge(record)
            except BaseException:
                self._budget.release(reserved)
                raise
            paid = [new for old, new in judgments if new is not old]
            again = {**record, "judgments": [new for _, new in judgments]}
            if self._check:
                again = self._check(again)
            self._journal.add(self._mask.mask_value(again))
            self._budget.settle_judging(system, reserved, sum_judging_cost({"judgments": paid}))

    async def _judge(self, record: Record) -> list[tuple[Record, Record]]:
        """Return each judgment with its replacement, which is the same if it was good."""
        judged = (self._judge_one(record, judgment) for judgment in get_judgments(record))
        return await asyncio.gather(*judged)

    async def _judge_one(self, record: Record, judgment: Record) -> tuple[Record, Record]:
        judge = self._judges.get(str(judgment.get("judge")))
        if judge is None or not judgment.get(FAILED_JUDGMENT):
            return judgment, judgment
        return judgment, (await judge(record, judgment.get("sample", 1))).fields


INTERRUPTED = "it was interrupted"
SPENT = "the budget is spent"
DECIDED = "it is decided"


@dataclass
class AnswerMaker:
    """Reads the answers that a folder has, and makes those that it lacks."""

    of: Prepared
    folder: Folder
    watch: Watch
    until: EarlyStopping | None
    manifest: RunManifest
    say: Say

    def __post_init__(self) -> None:
        hashes = [rubric.hash for rubric in self.of.rubrics]
        self._unjudged = Unjudged(self.folder.answers, self.of.suite.judges, hashes)

    def read_answers(self, journal: Journal) -> State:
        """Read the answers in the folder, including those that no judge has seen."""
        state = self._read_state(journal)
        return self._read_state(journal) if self._move_unjudged(state, journal) else state

    def make_all(self, state: State, journal: Journal) -> tuple[State, str | None]:
        """Repeat failed judgments, then make the open calls; return why some are left.

        The journal is then read again, since repeated calls replace their lines.
        """
        stopped = None
        if state.unjudged:
            stopped = self._rejudge(state, journal)
            state = self._read_state(journal)
        if stopped is None:
            failed_before = state.tally.errors
            stopped = self._make_calls(state, journal)
            moved = self._move_unjudged(state, journal)
            state = self._read_state(journal) if failed_before or moved else state
        if not (state.missing or state.tally.errors):
            self.folder.tool_replies.unlink(missing_ok=True)
        return state, stopped

    def note_imports(self) -> None:
        """Note the modules that systems import in ways that the source does not show."""
        known = {**self.manifest["files"], **self.manifest[IMPORTED]}
        imported = hash_imported(self.of.suite, self.of.base)
        if more := {name: digest for name, digest in imported.items() if name not in known}:
            self.manifest.note({IMPORTED: {**self.manifest[IMPORTED], **more}})

    def _read_state(self, journal: Journal) -> State:
        """Return the state of the journal; the cost of replaced records stays counted."""
        state = State(self.of.plan, journal)
        if state.replaced_calls:
            self.manifest.note(
                {name: self.manifest[name] + getattr(state, name) for name in REPLACED_COUNTS}
            )
        return state

    def _move_unjudged(self, state: State, journal: Journal) -> int:
        """Move answers that wait for judges into the journal; return how many there were."""

        def is_done(record: Mapping[str, Any]) -> bool:
            system, number = state.locate(record)
            return state.calls[system][number] == CALL_IS_DONE

        return self._unjudged.move_into(journal, is_done)

    def _rejudge(self, state: State, journal: Journal) -> str | None:

        budget = self._open_budget(state)

        async def judge_all() -> None:
            async with self._open_judges() as judges:
                await Rejudger(judges, journal, budget, self.of).all()

        return self._work_to_end(judge_all(), state, budget)

    def _make_calls(self, state: State, journal: Journal) -> str | None:
        of = self.of
        if self.until is not None:
            self.until.begin(state, journal.read_records())
        if state.tally.done - state.tally.errors == of.plan.calls:
            return None
        budget = self._open_budget(state)

        async def call_all() -> None:
            async with (
                open_systems(
                    of,
                    self.say,
                    batches=self.folder.batches,
                    tool_replies=self.folder.tool_replies,
                    fresh=self.manifest[FRESH],
                ) as systems,
                self._open_judges() as judges,
            ):
                self.note_imports()
                calling = CallMaker(
                    of=of,
                    systems=systems,
                    state=state,
                    chooser=self.until or AllCalls(state),
                    journal=journal,
                    budget=budget,
                    judge=_make_judging(judges) if judges else None,
                    unjudged=self._unjudged,
                )
                await calling.all()

        stopped = self._work_to_end(call_all(), state, budget)
        decided = self.until is not None and self.until.is_over
        return DECIDED if decided and state.missing and stopped != INTERRUPTED else stopped

    def _open_budget(self, state: State) -> Budget:
        suite, shard = self.of.suite, self.of.shard or WHOLE
        in_journal = state.tally.cost_usd + self.manifest["replaced_usd"]
        return Budget(
            shard.divide_usd(suite.budget_usd),
            shard.divide_calls(suite.budget_calls),
            spent_usd=max(in_journal, self.manifest["spent_usd"]),
            spent_calls=state.tally.done + self.manifest["replaced_calls"],
            dearest=state.dearest,
            judging=state.dearest_judging if suite.judges else None,
        )

    def _work_to_end(
        self, work: Coroutine[Any, Any, None], state: State, budget: Budget
    ) -> str | None:
        """Work until all is done; return why some is left, or None."""
        printed = MaskedLines(sys.stderr, make_mask(self.of.suite.served))
        try:
            state.tally.notices = self.of.notices
            with self.watch(state.tally), redirect_stdout(cast("TextIO", printed)):
                run_to_end(work)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return INTERRUPTED
        finally:
            printed.close_line()
            if self.of.suite.budget_usd is not None:
                self.manifest.note({"spent_usd": budget.spent_usd})
        return SPENT if budget.is_spent else None

    def _open_judges(self) -> AbstractAsyncContextManager[list[WorkingJudge]]:
        suite = self.of.suite
        if not suite.judges:
            return nullcontext([])
        from calipers.judges.ask import Pace  # noqa: PLC0415 (only where there are judges)
        from calipers.judges.panels import open_judges  # noqa: PLC0415

        return open_judges(
            suite.judges,
            self.of.rubrics,
            Pace(
                concurrency=suite.concurrency,
                retries=suite.retries,
                timeout_seconds=suite.timeout_seconds,
            ),
            mask=make_mask(suite.served),
            say=self.say,
            cache=None
            if suite.cache is None or self.manifest[FRESH]
            else self.of.base / suite.cache,
        )


def _make_judging(judges: list[WorkingJudge]) -> Judging:
    from calipers.judges.panels import judge_record  # noqa: PLC0415 (only where there are judges)

    return partial(judge_record, judges)
