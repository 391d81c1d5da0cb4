"""Run a suite, and report on what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from calipers.runs.report_data import SAMPLES, Report
from calipers.scores.choices import read_options
from calipers.scores.score import Progress
from calipers.scores.signatures import declare_signature
from calipers.support.arguments import ignore_progress, require_type
from calipers.support.errors import ArgumentTypeError, UsageError

if TYPE_CHECKING:
    from calipers.runs.finish import RunResult
    from calipers.scores.choices import PolicyLike
    from calipers.scores.keywords import ReportKeywords
    from calipers.systems.tally import Watch


def run(
    suite: str | Path | Callable[[Any], Any] | Any = None,
    output: str | Path | None = None,
    *,
    tasks: Any = None,
    policy: str | Path | Mapping[str, Any] | None = None,
    fresh: bool = False,
    until_decided: bool = False,
    until_better: str | None = None,
    evidence: Literal["interval", "point"] = "interval",
    seed: int = 0,
    shard: str | None = None,
    merge: Sequence[str | Path] | None = None,
    report: bool = True,
    watch: Watch | None = None,
    checks: str | Path | Sequence[Mapping[str, Any]] | None = None,
    **settings: Any,
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
        fresh: Call everything again, in a new folder; the old results are kept.
        until_decided: Stop as soon as the verdict of the suite's gate is certain.
        until_better: Stop as soon as it is certain which of the suite's two systems is better in
            this metric, or that no further call can show it.
        evidence: With `until_better`: better on tasks like these ("interval"), or on exactly these
            tasks ("point").
        seed: Draws the order of the tasks, with `until_decided` and `until_better`.
        shard: "I/N": call the systems on every N-th task alone, from the I-th on. The policy is
            asked once the shards are merged.
        merge: The folders of all shards, to put together in `output`, to score and to decide on;
            nothing is called. The suite may be left out where it is still in its place.
        report: Write report.html beside the numbers.
        watch: A context manager that is given the counts of the calls while they are made.
        checks: A file or a list of checks, added to those of the suite.
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
    from calipers.runs.functions import make_folder, prepare_function  # noqa: PLC0415
    from calipers.runs.preparing import choose_shard, make_call_chooser, prepare_file  # noqa: PLC0415
    from calipers.runs.running import run_suite  # noqa: PLC0415
    from calipers.runs.sharding import Shard  # noqa: PLC0415
    from calipers.systems.agents.system import is_agent  # noqa: PLC0415

    watch = watch or (lambda _: nullcontext())
    if merge is not None:
        _refuse_for_merging(shard=shard, fresh=fresh, until=until_decided or until_better)
        return _merge(suite, merge, output, watch, checks=checks, report=report)
    if callable(suite) or is_agent(suite):
        ready = prepare_function(suite, tasks, policy, checks, **settings)
        report = report and output is not None
        output = make_folder() if output is None else output
    else:
        _refuse_for_files(suite, tasks=tasks, policy=policy, **settings)
        ready = prepare_file(suite, checks)
    if shard is not None:
        ready = choose_shard(ready, Shard.parse(shard))
    return run_suite(
        ready,
        None if output is None else Path(output),
        watch,
        fresh=fresh,
        until=make_call_chooser(
            ready,
            until_decided=until_decided,
            until_better=until_better,
            evidence=evidence,
            seed=seed,
        ),
        report=report,
    )


def _merge(
    suite: Any,
    folders: Sequence[str | Path],
    output: str | Path | None,
    watch: Watch,
    *,
    checks: Any,
    report: bool,
) -> RunResult:
    """Put shards together, and score and decide on what they hold."""
    from calipers.runs.merging import merge_shards  # noqa: PLC0415
    from calipers.runs.preparing import prepare_file  # noqa: PLC0415
    from calipers.runs.running import run_suite  # noqa: PLC0415

    if output is None:
        raise UsageError("--merge: the merged run needs a folder", fix="-o FOLDER")
    if suite is not None:
        _refuse_for_files(suite)
    found = merge_shards([Path(each) for each in folders], Path(output), suite and Path(suite))
    ready = prepare_file(found, checks)
    return run_suite(ready, Path(output), watch, report=report, calls=False)


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


@declare_signature("report")
def report(
    data: Any,
    output: str | Path | None = None,
    *,
    policy: PolicyLike | None = None,
    title: str | None = None,
    samples: int = SAMPLES,
    bundle: str | Path | None = None,
    progress: Progress = ignore_progress,
    **options: Unpack[ReportKeywords],
) -> Report:
    """Show records, or a result folder, on one page: verdict, metrics, figures, failures, samples.

    Args:
        data: Records, as `score` takes them, or the result folder of a run.
        output: A file for the page, HTML or, if it ends in .md, Markdown.
        policy: Decide by this policy; without one, a result folder's own verdict is shown.
        title: Title of the report; by default the name of the suite, or systems and tasks.
        samples: Number of records to show, failures first.
        bundle: A folder for tables (LaTeX, CSV), figures (SVG, PDF, PNG) and a methods paragraph.
        progress: Is given the share of the work that is done, from 0 to 1.
        options: Listed below, and on docs/options.md.

    Returns:
        The score, the verdict, what failed, and samples to read.

    >>> told = report([{"id": "a", "answer": "4", "target": "5"}])
    >>> told.failures[0].what, told.failures[0].ids
    ('wrong', ('a',))
    """
    from calipers.runs import present  # noqa: PLC0415 (loads pydantic)

    asked = present.ReportOptions(policy=policy, samples=samples, title=title)
    chosen = read_options("report", options, data, policy=policy)
    made = present.report_data(data, asked, replace(chosen, figures=None), progress)
    if chosen.figures is not None:
        made.save_figures(chosen.figures)
    if bundle is not None:
        made.save_bundle(bundle)
    if output is not None:
        made.save(output)
    return made
