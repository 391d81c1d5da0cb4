"""Run a suite from beginning to end: the folder, the calls, then the score and the gate.

`run` is `calipers.run`; `run_suite` is what it, the command line, CI and the pytest plug-in share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from calipers.gates.result import Early
from calipers.records.result_folder import find_newest, make_stamp
from calipers.runs.call import note_unjudged
from calipers.runs.call_records import note_reported
from calipers.runs.code_under_test import hash_code
from calipers.runs.folder import ANOTHER, ANSWERS, FRESH, SHARD, SUITE_FILE, Folder, make_manifest
from calipers.runs.missing_answers import INTERRUPTED, AnswerMaker
from calipers.runs.prepare import STORED_SETTINGS, Prepared, list_stored_settings
from calipers.runs.resume import RunManifest, State, list_stale_causes
from calipers.runs.run_options import RunOptions
from calipers.runs.suite import Suite
from calipers.scores.resolve_options import declare_signature, split_own_options
from calipers.support.errors import ArgumentTypeError, UsageError
from calipers.support.options import require_type
from calipers.support.user_code import fail_on_exit
from calipers.systems.journal import Journal, Watch

if TYPE_CHECKING:
    from calipers.runs.early_stopping import EarlyStopping
    from calipers.runs.finish import RunResult
    from calipers.runs.run_options import GateRequest
    from calipers.support.keywords import RunKeywords


def run_suite(
    suite: Prepared,
    output: Path | None,
    watch: Watch,
    *,
    fresh: bool = False,
    until: EarlyStopping | None = None,
    report: bool = True,
    calls: bool = True,
    request: GateRequest | None = None,
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
        request: What is asked of the gate beside the suite's policy.

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
        output, folder_notices = _choose_folder(suite, now, fresh=fresh)
        fresh = False
        notices = [*folder_notices, *notices]
    folder = Folder(output)
    now[STORED_SETTINGS] = list_stored_settings(suite.suite, suite.base, output)
    run = _Run(suite, folder, watch, until, RunManifest(folder, now, suite.base), notices)
    with fail_on_exit():
        return run(fresh=fresh, report=report, calls=calls, request=request)


def _choose_folder(of: Prepared, now: Mapping[str, Any], *, fresh: bool) -> tuple[Path, list[str]]:
    """Return the folder of a run with the manifest `now`, and what to say about the choice.

    It is the newest of `results/NAME` where that is of the same suite, data and code; else, and
    where it has to be fresh, a new one, `results/NAME/TIMESTAMP`.
    """
    root = _find_results_root(of.suite)
    while True:
        newest = find_newest(root)
        changes = [] if newest is None else _list_folder_changes(newest, now, of.base)
        if newest is not None and not (changes or fresh):
            return newest, []
        folder = root / make_stamp(newest)
        if not _make_folder(folder):  # another run has just started there: look again
            continue
        if newest is None or fresh:
            return folder, []
        return folder, [f"a new run, {folder}: since {newest.name}, {'; '.join(changes)}"]


def start_folder(suite: Suite) -> Path:
    """Make and return a new folder for a run of a suite, whatever others there are."""
    root = _find_results_root(suite)
    while not _make_folder(folder := root / make_stamp(find_newest(root))):
        pass  # another run has just started there
    return folder


def _list_folder_changes(folder: Path, now: Mapping[str, Any], base: Path) -> list[str]:
    """Return what makes the answers of a folder stale; empty if nothing does."""
    try:
        before = Folder(folder).read_manifest()
    except UsageError as error:
        return [error.message]
    return [] if before is None else list_stale_causes(before, now, base)


def _make_folder(folder: Path) -> bool:
    """Make a folder; return False if it exists already."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", fix=ANOTHER) from error
    return True


def _find_results_root(suite: Suite) -> Path:
    name = "".join(
        character if character.isalnum() or character in "-_." else "-" for character in suite.name
    )
    return Path("results") / (name.strip(".") or "suite")


@dataclass(slots=True)
class _Run:
    """One run in its folder, which is locked meanwhile."""

    of: Prepared
    folder: Folder
    watch: Watch
    until: EarlyStopping | None
    manifest: RunManifest
    notices: list[str]

    def __call__(
        self, *, fresh: bool, report: bool, calls: bool, request: GateRequest | None
    ) -> RunResult:
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
                reused, cached = _count_answers(state), state.tally.cached
                stopped = None
                if calls:
                    state, stopped = making.make_all(state, journal)
                self.notices += note_unjudged(len(state.unjudged))
            reused += state.tally.cached - cached
            answers = {"new": _count_answers(state) - reused, "reused": reused}
            self.notices += note_reported(of, state.tally.reported)
            self.notices += note_retried(state.tally.retried, state.tally.done)
            self.notices += self._note_changed_code(answers["new"])
            manifest.note({ANSWERS: answers})
            making.note_imports()
            description = None if until is None else until.describe(state.tally.done)
            early = description if isinstance(description, Early) else None
            better = None if isinstance(description, Early) else description
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
                request=request,
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


def note_retried(retried: int, done: int) -> Iterator[str]:
    """Yield how many calls were tried again: their latency is that of the last attempt."""
    if retried:
        yield f"{retried:,} of {done:,} calls were tried again (`attempts` in their records)"


def _count_answers(state: State) -> int:
    return state.tally.done - state.tally.errors


@declare_signature("run", RunOptions)
def run(
    suite: str | Path | Callable[[Any], Any] | Any = None,
    output: str | Path | None = None,
    *,
    tasks: Any = None,
    policy: str | Path | Mapping[str, Any] | None = None,
    merge: Sequence[str | Path] | None = None,
    watch: Watch | None = None,
    **settings: Unpack[RunKeywords],
) -> RunResult:
    """Call the systems of a suite file, or a function, on tasks, score the replies and decide.

    Running again calls only what is missing. Answers of a changed suite are never mixed with old
    ones.

    Args:
        suite: The suite file; or a function that takes a record, or its input where its parameter
            is a text, and returns the answer or fields of the record; or an agent of a library,
            or a function without parameters that makes one for each task.
        output: The result folder. Without it the newest in `results/NAME`, or a new folder there,
            `results/NAME/TIMESTAMP`, where the suite, its data or the code under test has changed;
            for a function, one that is removed when Python ends.
        tasks: With a function: a file of records, or a list of records or of inputs.
        policy: With a function: the policy of a gate, a file or a mapping.
        merge: The folders of all shards, to put together in `output`, to score and to decide on;
            nothing is called. The suite may be left out where it is still in its place.
        watch: A context manager that is given the counts of the calls while they are made.
        settings: With a function: other keys of a suite file, such as `runs=3`, `concurrency`,
            `timeout_seconds`, `answer`, `judges` or `metric_settings`.

    Returns:
        The counts, among them of `new` and `reused` answers, the `records`, the `score`, the
        `gate`, and which is `better` where that was asked.

    Raises:
        TypeError: An argument is of another type, or is not known.
        UsageError: The suite has a mistake, or `output` holds answers that are stale.

    >>> def double(record):
    ...     return str(2 * int(record["input"]))
    >>> result = run(double, tasks=[{"id": "a", "input": "2", "target": "4"}], runs=3)
    >>> result.score["accuracy"].value, result.records.height
    (1.0, 3)
    """
    from calipers.runs.prepare import choose_shard, make_call_chooser, prepare_file  # noqa: PLC0415
    from calipers.runs.shards import Shard  # noqa: PLC0415

    watch = watch or (lambda _: nullcontext())
    asked, others = split_own_options("run", RunOptions, settings, strict=False)
    if merge is not None:
        until = asked.until_decided or asked.until_better
        _refuse_for_merging(shard=asked.shard, fresh=asked.fresh, until=until)
        return _merge_shards(suite, merge, output, watch, asked)
    report = asked.report
    if _is_callable(suite):
        from calipers.runs.prepare import make_temporary_folder, prepare_function  # noqa: PLC0415

        ready = prepare_function(suite, tasks, policy, asked.checks, **others)
        report = report and output is not None
        output = make_temporary_folder() if output is None else output
    else:
        _refuse_for_files(suite, tasks=tasks, policy=policy, **others)
        ready = prepare_file(cast("str | Path", suite), asked.checks)
    if asked.shard is not None:
        ready = choose_shard(ready, Shard.parse(asked.shard))
    return run_suite(
        ready,
        None if output is None else Path(output),
        watch,
        fresh=asked.fresh,
        until=make_call_chooser(ready, asked),
        report=report,
    )


def _is_callable(suite: Any) -> bool:
    """Return True if a function or an agent is given, rather than a file."""
    if isinstance(suite, str | Path):
        return False
    from calipers.systems.agents.system import find_kind  # noqa: PLC0415 (only for functions)

    return callable(suite) or find_kind(suite) is not None


def _merge_shards(
    suite: Any,
    folders: Sequence[str | Path],
    output: str | Path | None,
    watch: Watch,
    asked: RunOptions,
) -> RunResult:
    from calipers.runs.prepare import prepare_file  # noqa: PLC0415
    from calipers.runs.shards import merge_shards  # noqa: PLC0415

    if output is None:
        raise UsageError("--merge: the merged run needs a folder", fix="-o FOLDER")
    if suite is not None:
        _refuse_for_files(suite)
    merged = merge_shards([Path(folder) for folder in folders], Path(output), suite and Path(suite))
    ready = prepare_file(merged, asked.checks)
    return run_suite(ready, Path(output), watch, report=asked.report, calls=False)


def _refuse_for_merging(**others: Any) -> None:
    for name, value in others.items():
        if value:
            option = "--until-…" if name == "until" else f"--{name}"
            raise UsageError(f"--merge calls nothing, and {option} does", fix=f"leave {option} out")


def _refuse_for_files(suite: Any, **of_functions: Any) -> None:
    """Refuse what is not a suite file, and arguments that belong into the file."""
    require_type(
        f"run({suite!r})",
        suite,
        str | Path,
        expected="a suite file or a function",
        fix="calipers init writes a suite to start from",
    )
    for name, value in of_functions.items():
        if value is not None:
            raise ArgumentTypeError(
                f"run(): {name} is for a function",
                fix=f"a suite file says it itself: write {name} in {suite}",
            )
