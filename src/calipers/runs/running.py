"""A suite from beginning to end: the folder, the calls, then the score and the gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.records.result_folder import find_newest, make_stamp
from calipers.runs.changes import list_changes
from calipers.runs.code_under_test import hash_code
from calipers.runs.finish import RunResult, finish_run
from calipers.runs.folder import ANOTHER, Folder
from calipers.runs.making import INTERRUPTED, AnswerMaker
from calipers.runs.manifest import ANSWERS, FRESH, SHARD, SUITE_FILE, make_manifest
from calipers.runs.metric_settings import STORED, list_stored
from calipers.runs.preparing import Prepared
from calipers.runs.run_manifest import RunManifest
from calipers.runs.state import State
from calipers.runs.suite import Suite
from calipers.runs.unjudged import note_unjudged
from calipers.support.errors import UsageError
from calipers.systems.journal import Journal
from calipers.systems.tally import Watch

if TYPE_CHECKING:
    from calipers.runs.in_drawn_order import InDrawnOrder

_ROOT = "results"


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
        until: Make no more calls than this takes to be sure: `make_call_chooser`.
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
        folder, notices = _choose_folder(suite.suite, suite.base, now, fresh=fresh)
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


def _choose_folder(
    suite: Suite, base: Path, now: Mapping[str, Any], *, fresh: bool
) -> tuple[Folder, tuple[str, ...]]:
    """Return the folder of a run, and what to say about the choice.

    It is the newest of `results/NAME` where that is of the same suite, data and code; else a new
    one, `results/NAME/TIMESTAMP`.

    Args:
        suite: The suite that is run.
        base: The suite's own folder.
        now: The manifest of the run.
        fresh: Whether to take a new folder whatever there is.
    """
    root = Path(_ROOT) / _name_folder(suite)
    while True:
        newest = find_newest(root)
        changes = [] if newest is None else _list_changes(Folder(newest), now, base)
        if newest is not None and not (changes or fresh):
            return Folder(newest), ()
        folder = root / make_stamp(newest)
        if not _make(folder):  # another run has just started there: look again
            continue
        if newest is None or fresh:
            return Folder(folder), ()
        return Folder(folder), (f"a new run, {folder}: since {newest.name}, {'; '.join(changes)}",)


def start_folder(suite: Suite) -> Path:
    """Make and return a new folder for a run of a suite, whatever others there are."""
    root = Path(_ROOT) / _name_folder(suite)
    while not _make(folder := root / make_stamp(find_newest(root))):
        pass  # another run has just started there
    return folder


def _list_changes(folder: Folder, now: Mapping[str, Any], base: Path) -> list[str]:
    """Return what makes the answers of a folder stale; empty if nothing does."""
    try:
        before = folder.read_manifest()
    except UsageError as error:
        return [error.message]
    return [] if before is None else list_changes(before, now, base)


def _make(folder: Path) -> bool:
    """Make a folder; return False if it exists already."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", fix=ANOTHER) from error
    return True


def _name_folder(suite: Suite) -> str:
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in suite.name)
    return name.strip(".") or "suite"


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
        self._manifest = manifest
        early = until.notices() if until else ()
        self._notices = [*notices, *of.notices, *early]
        self._making = AnswerMaker(of, folder, watch, until, manifest, self._say)

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
                state = self._making.read_answers(journal)
                reused = _count_answers(state)
                stopped = None
                if calls:
                    state, stopped = self._making.make_all(state, journal)
                self._notices += note_unjudged(len(state.unjudged))
            finally:
                journal.close()
            answers = {"new": _count_answers(state) - reused, "reused": reused}
            self._notices += self._note_changed_code(answers["new"])
            self._manifest.note({ANSWERS: answers})
            self._making.note_imports()
            made, suite = state.tally.done, self._of.suite
            early = None if until is None else until.describe_early(made)
            better = None if until is None else until.describe_better(made)
            if better is not None or self._of.shard is not None:
                suite = suite.model_copy(update={"policy": None})  # it is about all calls
            return finish_run(
                suite,
                self._of.base,
                self._folder,
                state,
                answers=answers,
                stopped=stopped,
                early=early,
                better=better,
                interrupted=stopped == INTERRUPTED,
                notices=self._notices,
                report=report,
            )

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


def _count_answers(state: State) -> int:
    """Return how many calls have a record without an error."""
    return state.tally.done - state.tally.errors
