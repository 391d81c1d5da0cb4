"""A suite from beginning to end: the folder, the calls, then the score and the gate."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    nullcontext,
    redirect_stdout,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from calipers.calibrations import read_all
from calipers.errors import UsageError
from calipers.gating.policy import read_policy
from calipers.judge.rubrics import Rubric
from calipers.result_folder import MANIFEST
from calipers.runner.budget import Budget
from calipers.runner.calling import Calling
from calipers.runner.course import AllCalls, Course
from calipers.runner.data import read_tasks
from calipers.runner.ending import RunResult, ended, gate_fields
from calipers.runner.folder import Folder, changed_files, new_manifest, refuse_changes
from calipers.runner.journal import Journal
from calipers.runner.judge_models import Pace
from calipers.runner.judges import WorkingJudge, judged, open_judges, rubrics_of
from calipers.runner.loop import run_to_end
from calipers.runner.plan import Plan
from calipers.runner.pricing import Pricing, price_notices, pricings
from calipers.runner.rejudging import Rejudging
from calipers.runner.state import State
from calipers.runner.tally import Tally
from calipers.runner.until_decided import UntilDecided, until_decided
from calipers.suites import Suite, read_suite
from calipers.systems import mask_of, open_systems

Watch = Callable[[Tally], AbstractContextManager[object]]
"""Somebody who looks on while the calls are made."""

INTERRUPTED = "it was interrupted"
SPENT = "the budget is spent"
DECIDED = "the gate is decided"
ORDER_SEED = "order_seed"
REPLACED = ("replaced_calls", "replaced_usd")  # by later calls: of the state, and of the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A suite that has been read and checked: nothing is called yet, nothing is written."""

    suite: Suite
    base: Path  # the suite's folder, which its paths are relative to
    plan: Plan
    prices: Sequence[Pricing | None]
    rubrics: Sequence[Rubric]  # of the judges
    notices: tuple[str, ...]


def prepared(path: str | Path) -> Prepared:
    """Read a suite, its data and its policy; every mistake in them is found here."""
    suite, base = read_suite(path), Path(path).parent
    rubrics = rubrics_of(suite.judges, base)
    if suite.policy is not None:
        read_all(read_policy(base / suite.policy).judges.calibrations)
    tasks = read_tasks(base / suite.data)
    prices = pricings(suite)
    return Prepared(
        suite=suite,
        base=base,
        plan=Plan(suite, tasks),
        prices=prices,
        rubrics=rubrics,
        notices=(*tasks.notices, *price_notices(suite, prices)),
    )


def default_folder(suite: Suite) -> Path:
    """results/NAME, so that running again finds what is there."""
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in suite.name)
    return Path("results") / (name.strip(".") or "suite")


def run_suite(
    suite: Prepared,
    folder: Path,
    watch: Watch,
    *,
    only_until_decided: bool = False,
    seed: int = 0,
    report: bool = True,
) -> RunResult:
    """Make the calls that the folder lacks, score what it then holds, and decide.

    With `only_until_decided`, no more of them than it takes to be sure what the gate will say, the
    tasks in an order that the seed draws.
    """
    course = deciding_course(suite, seed) if only_until_decided else None
    return _Run(suite, Folder(folder), watch, course)(report=report)


def deciding_course(suite: Prepared, seed: int) -> UntilDecided:
    """The calls that decide the gate of a suite, in the order that the seed draws."""
    return until_decided(suite.plan, suite.suite, suite.base, gate_fields(suite.suite), seed)


class _Run:
    """One run, in a folder that it holds."""

    def __init__(
        self, of: Prepared, folder: Folder, watch: Watch, until_decided: UntilDecided | None
    ) -> None:
        self._of = of
        self._until_decided = until_decided
        self._folder = folder
        self._watch = watch
        self._notices = [*of.notices, *(until_decided.notices() if until_decided else ())]
        self._manifest: dict[str, Any] = {}

    def __call__(self, *, report: bool) -> RunResult:
        """The run, and what came of it."""
        early = self._until_decided
        with self._folder.held():
            self._begin()
            journal = Journal(self._folder.journal)
            try:
                state, stopped = self._all_made(journal)
                self._notices += unjudged_notice(state)
            finally:
                journal.close()
            return ended(
                self._of.suite,
                self._of.base,
                self._folder,
                state,
                stopped=stopped,
                early=None if early is None else early.early(state.tally.done),
                interrupted=stopped == INTERRUPTED,
                notices=self._notices,
                report=report,
            )

    def _begin(self) -> None:
        """Write down what the folder is of; another suite's folder is refused."""
        of = self._of
        known = {
            system.name: pricing.to_dict()
            for system, pricing in zip(of.suite.systems, of.prices, strict=True)
            if pricing is not None
        }
        tasks = of.plan.tasks
        now = new_manifest(of.suite, of.base, tasks.sha256, len(tasks), known)
        if of.rubrics:
            judges = zip(of.suite.judges, of.rubrics, strict=True)
            now["rubrics"] = {judge.name: rubric.hash for judge, rubric in judges}
        before = self._folder.manifest()
        if before is not None:
            refuse_changes(before, now, self._folder.path)
            for name in changed_files(before, now):
                self._notices.append(f"{name} has changed since the folder was begun")
        for name in (*REPLACED, "spent_usd"):
            now[name] = (before or {}).get(name, 0)
        now |= self._seed(before or {})
        self._note(now)

    def _seed(self, before: dict[str, Any]) -> dict[str, int]:
        """The seed of the order of tasks: whoever has seen results must not draw again."""
        drawn = before.get(ORDER_SEED)
        if self._until_decided is None:
            return {} if drawn is None else {ORDER_SEED: drawn}
        seed = self._until_decided.seed
        if drawn not in (None, seed):
            raise UsageError(
                f"{self._folder.path}: its tasks were drawn with --seed {drawn}, not {seed}",
                fix=f"go on with --seed {drawn}, or begin anew with another folder: -o FOLDER",
            )
        return {ORDER_SEED: seed}

    def _say(self, notice: str) -> None:
        if notice not in self._notices:
            self._notices.append(notice)

    def _note(self, changed: dict[str, Any]) -> None:
        self._manifest |= changed
        self._folder.write_json(MANIFEST, self._manifest)

    def _state(self, journal: Journal) -> State:
        """What the journal holds; what was replaced stays spent."""
        state = State(self._of.plan, journal)
        if state.replaced_calls:
            self._note({name: self._manifest[name] + getattr(state, name) for name in REPLACED})
        return state

    def _all_made(self, journal: Journal) -> tuple[State, str | None]:
        """Judge what a judge failed on, then make the calls that are open; say why some are left.

        What was made anew has replaced its line, so that the journal is read again.
        """
        state, stopped = self._state(journal), None
        if state.unjudged:
            stopped = self._judged_anew(state, journal)
            state = self._state(journal)
        if stopped is None:
            failed_before = state.tally.errors
            stopped = self._calls_made(state, journal)
            state = self._state(journal) if failed_before else state
        return state, stopped

    def _judged_anew(self, state: State, journal: Journal) -> str | None:
        suite, budget = self._of.suite, self._budget(state)

        async def judging() -> None:
            async with self._open_judges() as judges:
                await Rejudging(judges, journal, budget, suite).all(suite.concurrency)

        return self._to_end(judging(), state, budget)

    def _calls_made(self, state: State, journal: Journal) -> str | None:
        of = self._of
        course = self._course(state, journal)
        if state.tally.done - state.tally.errors == of.plan.calls:
            return None
        budget = self._budget(state)

        async def calls() -> None:
            async with (
                open_systems(of.suite, of.base, self._say) as systems,
                self._open_judges() as judges,
            ):
                calling = Calling(
                    of.plan,
                    systems,
                    state=state,
                    course=course,
                    journal=journal,
                    budget=budget,
                    prices=of.prices,
                    mask=mask_of(of.suite),
                    judged=partial(judged, judges),
                )
                await calling.all()

        stopped = self._to_end(calls(), state, budget)
        decided = self._until_decided is not None and self._until_decided.is_over
        return DECIDED if decided and state.missing and stopped != INTERRUPTED else stopped

    def _budget(self, state: State) -> Budget:
        suite = self._of.suite
        in_journal = state.tally.cost_usd + self._manifest["replaced_usd"]
        return Budget(
            suite.budget_usd,
            suite.budget_calls,
            spent_usd=max(in_journal, self._manifest["spent_usd"]),
            spent_calls=state.tally.done + self._manifest["replaced_calls"],
            dearest=state.dearest,
            judging=state.dearest_judging if suite.judges else None,
        )

    def _to_end(self, work: Coroutine[Any, Any, None], state: State, budget: Budget) -> str | None:
        """Work until all is done; say why, if some is left."""
        try:
            with self._watch(state.tally), redirect_stdout(sys.stderr):
                run_to_end(work)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return INTERRUPTED
        finally:
            if self._of.suite.budget_usd is not None:
                self._note({"spent_usd": budget.spent_usd})
        return SPENT if budget.is_spent else None

    def _course(self, state: State, journal: Journal) -> Course:
        if self._until_decided is None:
            return AllCalls(state)
        self._until_decided.begin(state, (record for _, _, record in journal.lines()))
        return self._until_decided

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
            mask=mask_of(suite),
            say=self._say,
            cache=None if suite.cache is None else self._of.base / suite.cache,
        )


def unjudged_notice(state: State) -> Iterator[str]:
    """Say how many answers a judge owes a judgement to."""
    if count := len(state.unjudged):
        what = (
            "1 answer: run again to have it"
            if count == 1
            else f"{count:,} answers: run again to have these"
        )
        yield f"judges failed on {what} judged, and only judged"
