"""A suite from beginning to end: the folder, the calls, then the score and the gate."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    nullcontext,
    redirect_stdout,
)
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from calipers.judges.models import Pace
from calipers.judges.panels import WorkingJudge, judge_record, open_judges
from calipers.runs.calling import Calling
from calipers.runs.choosing import choose_folder
from calipers.runs.code_under_test import hash_code, hash_imported
from calipers.runs.finish import RunResult, finish_run
from calipers.runs.folder import Folder
from calipers.runs.in_drawn_order import InDrawnOrder
from calipers.runs.manifest import ANSWERS, FRESH, IMPORTED, SHARD, SUITE_FILE, make_manifest
from calipers.runs.metric_settings import STORED, list_stored
from calipers.runs.opening import open_systems
from calipers.runs.preparing import Prepared
from calipers.runs.rejudging import Rejudging
from calipers.runs.run_manifest import REPLACED, RunManifest
from calipers.runs.schedule import AllCalls, CallChooser
from calipers.runs.sharding import WHOLE
from calipers.runs.state import DONE, State
from calipers.runs.unjudged import Unjudged, note_unjudged
from calipers.runs.until_better import UntilBetter
from calipers.runs.until_decided import UntilDecided
from calipers.support.errors import UsageError
from calipers.systems.budget import Budget
from calipers.systems.journal import Journal
from calipers.systems.loop import run_to_end
from calipers.systems.masked import MaskedLines
from calipers.systems.secrets import mask_for
from calipers.systems.tally import Watch

"""Somebody who looks on while the calls are made."""

INTERRUPTED = "it was interrupted"
SPENT = "the budget is spent"
DECIDED = "it is decided"


def run_suite(
    suite: Prepared,
    output: Path | None,
    watch: Watch,
    *,
    fresh: bool = False,
    until: InDrawnOrder | None = None,
    report: bool = True,
    calls: bool = True,
) -> RunResult:
    """Make the calls that the folder lacks, score what it then holds, and decide.

    Args:
        suite: What `prepare_file` has read.
        output: The result folder; None takes the suite's newest in `results/NAME`, or a new one
            there where the suite, its data or the code under test has changed.
        watch: Is given the counts of the calls while these are made.
        fresh: Make every call; what the folder holds is moved beside it.
        until: Make no more calls than this takes to be sure: `make_deciding` or `make_comparing`.
        report: Write report.html.
        calls: Make calls; otherwise only what the folder holds is scored and decided on.

    Raises:
        UsageError: `output` holds the answers of another suite, other data or other code.
    """
    now = make_manifest(
        suite.suite,
        suite.base,
        suite.plan.tasks,
        suite.prices,
        suite.rubrics,
        suite.checks.hash(),
        suite.plan.images.hashes(suite.base),
    )
    now[FRESH] = fresh
    if suite.shard is not None:
        if output is None:
            raise UsageError(
                f"--shard {suite.shard}: each shard needs a folder of its own", fix="-o FOLDER"
            )
        now |= _describe_shard(suite, output)
        now["data"]["tasks"] = suite.all_tasks
        report = False  # of a part
    if output is None:
        folder, notices = choose_folder(suite.suite, suite.base, now, fresh=fresh)
        fresh = False
    else:
        folder, notices = Folder(output), ()
    now[STORED] = list_stored(suite.suite, suite.base, folder.path)
    run = _Run(suite, folder, watch, until, RunManifest(folder, now, suite.base), notices)
    return run(fresh=fresh, report=report, calls=calls)


def _describe_shard(suite: Prepared, output: Path) -> dict[str, Any]:
    """Return what a shard's manifest says beyond that of a whole run."""
    file = {} if suite.file is None else {SUITE_FILE: os.path.relpath(suite.file, output)}
    return {SHARD: str(suite.shard), **file}


class _Run:
    """One run, in a folder that it holds."""

    def __init__(
        self,
        of: Prepared,
        folder: Folder,
        watch: Watch,
        until: InDrawnOrder | None,
        manifest: RunManifest,
        notices: Sequence[str],
    ) -> None:
        self._of = of
        self._until = until
        self._folder = folder
        self._watch = watch
        self._manifest = manifest
        early = until.notices() if until else ()
        self._notices = [*notices, *of.notices, *early]
        hashes = [rubric.hash for rubric in of.rubrics]
        self._unjudged = Unjudged(folder.answers, of.suite.judges, hashes)

    def __call__(self, *, fresh: bool, report: bool, calls: bool = True) -> RunResult:
        """Run, and return what came of it."""
        until = self._until
        with self._folder.held():
            if fresh and (kept := self._folder.set_aside()) is not None:
                self._notices.append(f"the answers of before are in {kept}")
            self._notices += self._manifest.begin(None if until is None else until.seed)
            journal = Journal(self._folder.journal)
            try:
                if self._manifest.checks_changed:
                    journal.rewrite(map(self._of.checks, journal.read_records()))
                state = self._read_answers(journal)
                reused = _count_answers(state)
                stopped = None
                if calls:
                    state, stopped = self._make_all(state, journal)
                self._notices += note_unjudged(len(state.unjudged))
            finally:
                journal.close()
            answers = {"new": _count_answers(state) - reused, "reused": reused}
            self._notices += self._note_changed_code(answers["new"])
            self._manifest.note({ANSWERS: answers})
            self._note_imports()
            made, suite = state.tally.done, self._of.suite
            if isinstance(until, UntilBetter) or self._of.shard is not None:
                suite = suite.model_copy(update={"policy": None})  # it is about all calls
            return finish_run(
                suite,
                self._of.base,
                self._folder,
                state,
                answers=answers,
                stopped=stopped,
                early=until.describe(made) if isinstance(until, UntilDecided) else None,
                better=until.describe(made) if isinstance(until, UntilBetter) else None,
                interrupted=stopped == INTERRUPTED,
                notices=self._notices,
                report=report,
            )

    @property
    def _is_fresh(self) -> bool:
        """Say whether no reply may come from a cache."""
        return bool(self._manifest[FRESH])

    def _read_answers(self, journal: Journal) -> State:
        """Read the answers in the folder, including those that no judge has seen."""
        state = self._read_state(journal)
        return self._read_state(journal) if self._move_unjudged(state, journal) else state

    def _move_unjudged(self, state: State, journal: Journal) -> int:
        """Move answers that wait for judges into the journal; return how many there were."""

        def is_done(record: Mapping[str, Any]) -> bool:
            system, number = state.locate(record)
            return state.calls[system][number] == DONE

        return self._unjudged.move_into(journal, is_done)

    def _note_imports(self) -> None:
        """Note the modules that systems import in ways that cannot be seen in the source."""
        known = {**self._manifest["files"], **self._manifest[IMPORTED]}
        found = hash_imported(self._of.suite, self._of.base)
        if more := {name: each for name, each in found.items() if name not in known}:
            self._manifest.note({IMPORTED: {**self._manifest[IMPORTED], **more}})

    def _note_changed_code(self, new: int) -> Iterator[str]:
        """Yield which code under test has changed while it was called."""
        before = self._manifest["files"]
        now = hash_code(self._of.suite, self._of.base) if new else {}
        changed = [name for name, digest in now.items() if before.get(name, digest) != digest]
        if changed:
            yield f"{', '.join(changed)} has changed during the run: run again to call it again"

    def _say(self, notice: str) -> None:
        if notice not in self._notices:
            self._notices.append(notice)

    def _read_state(self, journal: Journal) -> State:
        """Return the state from the journal; what was replaced stays spent."""
        state = State(self._of.plan, journal)
        if state.replaced_calls:
            self._manifest.note(
                {name: self._manifest[name] + getattr(state, name) for name in REPLACED}
            )
        return state

    def _make_all(self, state: State, journal: Journal) -> tuple[State, str | None]:
        """Judge what a judge failed on, then make the calls that are open; say why some are left.

        What was made again has replaced its line, so that the journal is read again.
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

    def _rejudge(self, state: State, journal: Journal) -> str | None:
        suite, budget = self._of.suite, self._open_budget(state)

        async def judge_all() -> None:
            async with self._open_judges() as judges:
                rejudging = Rejudging(judges, journal, budget, suite, self._of.checks)
                await rejudging.all(suite.concurrency)

        return self._work_to_end(judge_all(), state, budget)

    def _make_calls(self, state: State, journal: Journal) -> str | None:
        of = self._of
        chooser = self._make_chooser(state, journal)
        if state.tally.done - state.tally.errors == of.plan.calls:
            return None
        budget = self._open_budget(state)

        async def call_all() -> None:
            async with (
                open_systems(
                    of.suite,
                    of.base,
                    self._say,
                    batches=self._folder.batches,
                    fresh=self._is_fresh,
                    functions=of.functions,
                ) as systems,
                self._open_judges() as judges,
            ):
                self._note_imports()
                calling = Calling(
                    of.plan,
                    systems,
                    state=state,
                    chooser=chooser,
                    journal=journal,
                    budget=budget,
                    prices=of.prices,
                    mask=mask_for(of.suite.served),
                    judged=partial(judge_record, judges),
                    unjudged=self._unjudged if judges else None,
                    check=self._of.checks,
                )
                await calling.all()

        stopped = self._work_to_end(call_all(), state, budget)
        decided = self._until is not None and self._until.is_over
        return DECIDED if decided and state.missing and stopped != INTERRUPTED else stopped

    def _open_budget(self, state: State) -> Budget:
        suite, shard = self._of.suite, self._of.shard or WHOLE
        in_journal = state.tally.cost_usd + self._manifest["replaced_usd"]
        return Budget(
            shard.divide_usd(suite.budget_usd),
            shard.divide_calls(suite.budget_calls),
            spent_usd=max(in_journal, self._manifest["spent_usd"]),
            spent_calls=state.tally.done + self._manifest["replaced_calls"],
            dearest=state.dearest,
            judging=state.dearest_judging if suite.judges else None,
        )

    def _work_to_end(
        self, work: Coroutine[Any, Any, None], state: State, budget: Budget
    ) -> str | None:
        """Work until all is done; return why some is left, or None."""
        printed = MaskedLines(sys.stderr, mask_for(self._of.suite.served))
        try:
            with self._watch(state.tally), redirect_stdout(cast("TextIO", printed)):
                run_to_end(work)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return INTERRUPTED
        finally:
            printed.close_line()
            if self._of.suite.budget_usd is not None:
                self._manifest.note({"spent_usd": budget.spent_usd})
        return SPENT if budget.is_spent else None

    def _make_chooser(self, state: State, journal: Journal) -> CallChooser:
        if self._until is None:
            return AllCalls(state)
        self._until.begin(state, (record for _, _, record in journal.read_lines()))
        return self._until

    def _open_judges(self) -> AbstractAsyncContextManager[list[WorkingJudge]]:
        suite = self._of.suite
        if not suite.judges:
            return nullcontext([])
        return open_judges(
            suite.judges,
            self._of.rubrics,
            Pace(
                concurrency=suite.concurrency,
                retries=suite.retries,
                timeout_seconds=suite.timeout_seconds,
            ),
            mask=mask_for(suite.served),
            say=self._say,
            cache=None if suite.cache is None or self._is_fresh else self._of.base / suite.cache,
        )


def _count_answers(state: State) -> int:
    """Return how many calls have a record without an error."""
    return state.tally.done - state.tally.errors
