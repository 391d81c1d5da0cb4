"""A suite from beginning to end: the folder, the calls, then the score and the gate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.gates.result import Early
from calipers.records.result_folder import find_newest, make_stamp
from calipers.runs.changes import list_changes
from calipers.runs.code_under_test import hash_code
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
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.journal import Journal
from calipers.systems.tally import Watch

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.runs.in_drawn_order import InDrawnOrder


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
        output: The result folder; None leaves the choice to `_choose_folder`.
        watch: Is given the counts of the calls while these are made.
        fresh: Make every call; what the folder holds is moved beside it.
        until: Make no more calls than this takes to be sure: `make_call_chooser`.
        report: Write report.html.
        calls: Make calls; otherwise only what the folder holds is scored and decided on.

    Raises:
        UsageError: `output` holds the answers of another suite, other data or other code.
    """
    now = make_manifest(suite)
    now[FRESH] = fresh
    if suite.shard is not None:
        if output is None:
            raise UsageError(
                f"--shard {suite.shard}: each shard needs a folder of its own", fix="-o FOLDER"
            )
        now[SHARD] = str(suite.shard)
        if suite.file is not None:
            now[SUITE_FILE] = os.path.relpath(suite.file, output)
        now["data"]["tasks"] = suite.all_tasks
        report = False  # of a part
    notices = [*suite.notices, *(until.notices() if until else ())]
    if output is None:
        output, said = _choose_folder(suite, now, fresh=fresh)
        fresh = False
        notices = [*said, *notices]
    folder = Folder(output)
    now[STORED] = list_stored(suite.suite, suite.base, output)
    run = _Run(suite, folder, watch, until, RunManifest(folder, now, suite.base), notices)
    return run(fresh=fresh, report=report, calls=calls)


def _choose_folder(of: Prepared, now: Mapping[str, Any], *, fresh: bool) -> tuple[Path, list[str]]:
    """Return the folder of a run with the manifest `now`, and what to say about the choice.

    It is the newest of `results/NAME` where that is of the same suite, data and code; else, and
    where it has to be fresh, a new one, `results/NAME/TIMESTAMP`.
    """
    root = _find_root(of.suite)
    while True:
        newest = find_newest(root)
        changes = [] if newest is None else _list_changes(newest, now, of.base)
        if newest is not None and not (changes or fresh):
            return newest, []
        folder = root / make_stamp(newest)
        if not _make(folder):  # another run has just started there: look again
            continue
        if newest is None or fresh:
            return folder, []
        return folder, [f"a new run, {folder}: since {newest.name}, {'; '.join(changes)}"]


def start_folder(suite: Suite) -> Path:
    """Make and return a new folder for a run of a suite, whatever others there are."""
    root = _find_root(suite)
    while not _make(folder := root / make_stamp(find_newest(root))):
        pass  # another run has just started there
    return folder


def _list_changes(folder: Path, now: Mapping[str, Any], base: Path) -> list[str]:
    """Return what makes the answers of a folder stale; empty if nothing does."""
    try:
        before = Folder(folder).read_manifest()
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


def _find_root(suite: Suite) -> Path:
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in suite.name)
    return Path("results") / (name.strip(".") or "suite")


@dataclass(slots=True)
class _Run:
    """One run, in a folder that it holds."""

    of: Prepared
    folder: Folder
    watch: Watch
    until: InDrawnOrder | None
    manifest: RunManifest
    notices: list[str]

    def __call__(self, *, fresh: bool, report: bool, calls: bool) -> RunResult:
        of, folder, until, manifest = self.of, self.folder, self.until, self.manifest
        making = AnswerMaker(of, folder, self.watch, until, manifest, self._say)
        with folder.held():
            if fresh and (kept := folder.set_aside()) is not None:
                self.notices.append(f"the answers of before are in {kept}")
            self.notices += manifest.begin(None if until is None else until.seed)
            with closing(Journal(folder.journal)) as journal:
                if manifest.checks_changed:
                    journal.rewrite(map(of.checks, journal.read_records()))
                state = making.read_answers(journal)
                reused = _count_answers(state)
                stopped = None
                if calls:
                    state, stopped = making.make_all(state, journal)
                self.notices += note_unjudged(len(state.unjudged))
            answers = {"new": _count_answers(state) - reused, "reused": reused}
            self.notices += self._note_changed_code(answers["new"])
            manifest.note({ANSWERS: answers})
            making.note_imports()
            told = None if until is None else until.describe(state.tally.done)
            early = told if isinstance(told, Early) else None
            better = None if isinstance(told, Early) else told
            suite = of.suite
            if better is not None or of.shard is not None:
                suite = suite.model_copy(update={"policy": None})  # it is about all calls
            from calipers.runs.finish import finish_run  # noqa: PLC0415 (once the calls are made)

            return finish_run(
                suite,
                of.base,
                folder,
                state,
                answers=answers,
                stopped=stopped,
                early=early,
                better=better,
                interrupted=stopped == INTERRUPTED,
                notices=self.notices,
                report=report,
            )

    def _note_changed_code(self, new: int) -> Iterator[str]:
        """Yield which code under test has changed while it was called."""
        before = self.manifest["files"]
        now = hash_code(self.of.suite, self.of.base) if new else {}
        changed = [name for name, digest in now.items() if before.get(name, digest) != digest]
        if changed:
            yield f"{', '.join(changed)} has changed during the run: run again to call it again"

    def _say(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)


def _count_answers(state: State) -> int:
    return state.tally.done - state.tally.errors
