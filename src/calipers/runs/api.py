"""Run a suite, and report on what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from calipers.records.sinks import check_folder
from calipers.runs.options import ReportOptions, RunOptions
from calipers.runs.report_data import Report
from calipers.scores.choices import declare_signature, read_options, take_own
from calipers.support.arguments import ignore_progress, require_type
from calipers.support.errors import ArgumentTypeError, UsageError

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.scores.score import Progress
    from calipers.support.keywords import ReportKeywords, RunKeywords
    from calipers.systems.tally import Watch


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
            is a text, and returns the answer or fields of the record; or an agent of pydantic-ai,
            LangGraph or the OpenAI Agents SDK.
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
    from calipers.runs.preparing import choose_shard, make_call_chooser, prepare_file  # noqa: PLC0415
    from calipers.runs.running import run_suite  # noqa: PLC0415
    from calipers.runs.sharding import Shard  # noqa: PLC0415

    watch = watch or (lambda _: nullcontext())
    asked, others = take_own("run", RunOptions, settings, strict=False)
    if merge is not None:
        until = asked.until_decided or asked.until_better
        _refuse_for_merging(shard=asked.shard, fresh=asked.fresh, until=until)
        return _merge(suite, merge, output, watch, asked)
    report = asked.report
    if _is_callable(suite):
        from calipers.runs.functions import make_folder, prepare_function  # noqa: PLC0415

        ready = prepare_function(suite, tasks, policy, asked.checks, **others)
        report = report and output is not None
        output = make_folder() if output is None else output
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
    """Say whether a function or an agent is given, rather than a file."""
    if isinstance(suite, str | Path):
        return False
    from calipers.systems.agents.system import find_kind  # noqa: PLC0415 (only for functions)

    return callable(suite) or find_kind(suite) is not None


def _merge(
    suite: Any,
    folders: Sequence[str | Path],
    output: str | Path | None,
    watch: Watch,
    asked: RunOptions,
) -> RunResult:
    from calipers.runs.preparing import prepare_file  # noqa: PLC0415
    from calipers.runs.running import run_suite  # noqa: PLC0415
    from calipers.runs.sharding import merge_shards  # noqa: PLC0415

    if output is None:
        raise UsageError("--merge: the merged run needs a folder", fix="-o FOLDER")
    if suite is not None:
        _refuse_for_files(suite)
    found = merge_shards([Path(each) for each in folders], Path(output), suite and Path(suite))
    ready = prepare_file(found, asked.checks)
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


@declare_signature("report", ReportOptions)
def report(
    data: Any,
    output: str | Path | None = None,
    *,
    progress: Progress = ignore_progress,
    **options: Unpack[ReportKeywords],
) -> Report:
    """Show records, or a result folder, on one page: verdict, metrics, figures, failures, samples.

    Args:
        data: Records, as `score` takes them, or the result folder of a run.
        output: A file for the page, HTML or, if it ends in .md, Markdown.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md.

    Returns:
        The score, the verdict, what failed, and samples to read.

    >>> told = report([{"id": "a", "answer": "4", "target": "5"}])
    >>> told.failures[0].what, told.failures[0].ids
    ('wrong', ('a',))
    """
    from calipers.runs import present  # noqa: PLC0415 (loads pydantic)

    asked, others = take_own("report", ReportOptions, options)
    chosen = read_options("report", others, data, policy=asked.policy)
    if asked.bundle is not None:
        check_folder(asked.bundle, "--bundle")
    made = present.report_data(data, asked, replace(chosen, figures=None), progress)
    if chosen.figures is not None:
        made.save_figures(chosen.figures)
    if asked.bundle is not None:
        made.save_bundle(asked.bundle)
    if output is not None:
        made.save(output)
    return made
