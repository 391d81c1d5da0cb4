"""Make the missing calls and judgments of a run, in a folder that may hold some already."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, cast

from calipers.runs.calling import Calling, Judging
from calipers.runs.code_under_test import hash_imported
from calipers.runs.folder import Folder
from calipers.runs.loading import load_meanwhile
from calipers.runs.manifest import FRESH, IMPORTED
from calipers.runs.opening import open_systems
from calipers.runs.preparing import Prepared
from calipers.runs.run_manifest import REPLACED, RunManifest
from calipers.runs.sharding import WHOLE
from calipers.runs.state import DONE, AllCalls, State
from calipers.runs.unjudged import Unjudged
from calipers.support.cache import Say
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal
from calipers.systems.loop import run_to_end
from calipers.systems.masked import MaskedLines
from calipers.systems.secrets import mask_for
from calipers.systems.tally import Watch

if TYPE_CHECKING:
    from calipers.judges.panels import WorkingJudge
    from calipers.runs.in_drawn_order import InDrawnOrder

INTERRUPTED = "it was interrupted"
SPENT = "the budget is spent"
DECIDED = "it is decided"


@dataclass
class AnswerMaker:
    """Reads the answers that a folder has, and makes those that it lacks."""

    of: Prepared
    folder: Folder
    watch: Watch
    until: InDrawnOrder | None
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
        """Judge what a judge failed on, then make the calls that are open; say why some are left.

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
        return state, stopped

    def note_imports(self) -> None:
        """Note the modules that systems import in ways that the source does not show."""
        known = {**self.manifest["files"], **self.manifest[IMPORTED]}
        found = hash_imported(self.of.suite, self.of.base)
        if more := {name: each for name, each in found.items() if name not in known}:
            self.manifest.note({IMPORTED: {**self.manifest[IMPORTED], **more}})

    def _read_state(self, journal: Journal) -> State:
        """Return the state from the journal; what was replaced stays spent."""
        state = State(self.of.plan, journal)
        if state.replaced_calls:
            self.manifest.note(
                {name: self.manifest[name] + getattr(state, name) for name in REPLACED}
            )
        return state

    def _move_unjudged(self, state: State, journal: Journal) -> int:
        """Move answers that wait for judges into the journal; return how many there were."""

        def is_done(record: Mapping[str, Any]) -> bool:
            system, number = state.locate(record)
            return state.calls[system][number] == DONE

        return self._unjudged.move_into(journal, is_done)

    def _rejudge(self, state: State, journal: Journal) -> str | None:
        from calipers.runs.rejudging import Rejudging  # noqa: PLC0415 (only where judges failed)

        budget = self._open_budget(state)

        async def judge_all() -> None:
            async with self._open_judges() as judges:
                await Rejudging(judges, journal, budget, self.of).all()

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
                    of, self.say, batches=self.folder.batches, fresh=self.manifest[FRESH]
                ) as systems,
                self._open_judges() as judges,
            ):
                self.note_imports()
                calling = Calling(
                    of=of,
                    systems=systems,
                    state=state,
                    chooser=self.until or AllCalls(state),
                    journal=journal,
                    budget=budget,
                    judge=_make_judging(judges) if judges else None,
                    unjudged=self._unjudged,
                )
                with load_meanwhile(of.suite):
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
        printed = MaskedLines(sys.stderr, mask_for(self.of.suite.served))
        try:
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
        from calipers.judges.models import Pace  # noqa: PLC0415 (only where there are judges)
        from calipers.judges.panels import open_judges  # noqa: PLC0415

        return open_judges(
            suite.judges,
            self.of.rubrics,
            Pace(
                concurrency=suite.concurrency,
                retries=suite.retries,
                timeout_seconds=suite.timeout_seconds,
            ),
            mask=mask_for(suite.served),
            say=self.say,
            cache=None
            if suite.cache is None or self.manifest[FRESH]
            else self.of.base / suite.cache,
        )


def _make_judging(judges: list[WorkingJudge]) -> Judging:
    from calipers.judges.panels import judge_record  # noqa: PLC0415 (only where there are judges)

    return partial(judge_record, judges)
