"""A suite from beginning to end: the folder, the calls, then the score and the gate."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from calipers.gating.policy import read_policy
from calipers.judge.rubrics import Rubric
from calipers.result_folder import MANIFEST
from calipers.runner.budget import Budget
from calipers.runner.calling import Calling
from calipers.runner.data import read_tasks
from calipers.runner.ending import RunResult, ended
from calipers.runner.folder import Folder, changed_files, new_manifest, refuse_changes
from calipers.runner.journal import Journal
from calipers.runner.judges import Pace, WorkingJudge, judged, open_judges, rubrics_of
from calipers.runner.plan import Plan
from calipers.runner.pricing import Pricing, price_notices, pricings
from calipers.runner.state import State
from calipers.runner.tally import Tally
from calipers.suites import Suite, read_suite
from calipers.systems import mask_of, open_systems

Watch = Callable[[Tally], AbstractContextManager[object]]
"""Somebody who looks on while the calls are made."""

INTERRUPTED = "it was interrupted"
SPENT = "the budget is spent"


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
        read_policy(base / suite.policy)
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


def run_suite(suite: Prepared, folder: Path, watch: Watch) -> RunResult:
    """Make the calls that the folder lacks, score what it then holds, and decide."""
    return _Run(suite, Folder(folder), watch)()


class _Run:
    """One run, in a folder that it holds."""

    def __init__(self, of: Prepared, folder: Folder, watch: Watch) -> None:
        self._of = of
        self._folder = folder
        self._watch = watch
        self._notices = list(of.notices)
        self._manifest: dict[str, Any] = {}

    def __call__(self) -> RunResult:
        """The run, and what came of it."""
        with self._folder.held():
            self._begin()
            journal = Journal(self._folder.journal)
            try:
                state = self._state(journal)
                failed_before = state.tally.errors
                stopped = self._calls_made(state, journal)
                if failed_before:
                    state = self._state(journal)  # what was called anew has replaced its line
            finally:
                journal.close()
            return ended(
                self._of.suite,
                self._of.base,
                self._folder,
                state,
                stopped=stopped,
                interrupted=stopped == INTERRUPTED,
                notices=self._notices,
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
        for name in ("replaced_usd", "spent_usd"):
            now[name] = 0.0 if before is None else before.get(name, 0.0)
        self._note(now)

    def _note(self, changed: dict[str, Any]) -> None:
        self._manifest |= changed
        self._folder.write_json(MANIFEST, self._manifest)

    def _state(self, journal: Journal) -> State:
        """What the journal holds; the cost of what was replaced is kept."""
        state = State(self._of.plan, journal)
        if state.replaced_usd:
            replaced = self._manifest["replaced_usd"] + state.replaced_usd
            self._note({"replaced_usd": replaced})
        return state

    def _calls_made(self, state: State, journal: Journal) -> str | None:
        """Make the calls that are open; say why, if some are left."""
        of = self._of
        if state.tally.done - state.tally.errors == of.plan.calls:
            return None
        in_journal = state.tally.cost_usd + self._manifest["replaced_usd"]
        budget = Budget(
            of.suite.budget_usd,
            of.suite.budget_calls,
            spent_usd=max(in_journal, self._manifest["spent_usd"]),
            spent_calls=state.tally.done,
            dearest=state.dearest,
        )

        async def calls() -> None:
            async with (
                open_systems(of.suite, of.base) as systems,
                self._open_judges() as judges,
            ):
                calling = Calling(
                    of.plan,
                    systems,
                    state=state,
                    journal=journal,
                    budget=budget,
                    prices=of.prices,
                    mask=mask_of(of.suite),
                    judged=partial(judged, judges),
                )
                await calling.all()

        try:
            with self._watch(state.tally), redirect_stdout(sys.stderr):
                run_to_end(calls())
        except (KeyboardInterrupt, asyncio.CancelledError):
            return INTERRUPTED
        finally:
            if of.suite.budget_usd is not None:
                self._note({"spent_usd": budget.spent_usd})
        return SPENT if budget.is_spent else None

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
            cache=None if suite.cache is None else self._of.base / suite.cache,
        )


def run_to_end(calls: Coroutine[Any, Any, None]) -> None:
    """Run to the end, also within a notebook, whose own loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run_here(calls)
        return
    raised: list[BaseException] = []

    def beside() -> None:
        try:
            _run_here(calls)
        except BaseException as error:  # noqa: BLE001 (is raised again below)
            raised.append(error)

    thread = threading.Thread(target=beside, name="calipers-run")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def _run_here(calls: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        with _ended_by_sigterm():
            await calls

    try:
        asyncio.run(main())
    except BaseExceptionGroup as group:
        raise _first(group) from None


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """A polite request to end is as good as Ctrl-C."""
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


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
