"""`calipers run`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_flag, add_output
from calipers.cli.output import add_verdict_options, say_notices, show, write_verdict
from calipers.records.result_folder import RECORDS, REPORT
from calipers.runs.run_options import RunOptions
from calipers.support.errors import EXIT_INCOMPLETE, UsageError
from calipers.support.options import list_own_options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from calipers.gates.result import GateResult
    from calipers.runs.finish import RunResult
    from calipers.scores.result import Score
    from calipers.systems.journal import Tally

_CHOOSING = ("shard", "until_decided", "until_better", "evidence", "seed")  # which calls are made


@click.command(cls=GroupedCommand, first=("output", "dry_run", "fresh", "until_decided"))
@click.argument("suite", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SUITE")
@add_declared_options("run", RunOptions)
@add_output("Write the results to FOLDER; without it, to results/NAME/TIMESTAMP.", metavar="FOLDER")
@add_flag("--dry-run", "Say how many calls there are and what they may cost.")
@add_flag(
    "--merge",
    "Put the folders of all shards, named instead of SUITE, together in the folder of -o.",
    "calls",
)
@add_verdict_options
def run(
    suite: tuple[Path, ...],
    output: Path | None,
    *,
    dry_run: bool,
    merge: bool,
    junit: Path | None,
    sarif: Path | None,
    options: dict[str, Any],
) -> None:
    """Call the systems of SUITE on its tasks, keep every reply, score them and decide.

    Run again to finish what is missing: finished calls are not repeated. If the suite, its data or
    the code under test has changed, a new folder is started. Exit codes: 0 pass, 1 the gate failed,
    2 a mistake in the suite or its data, 3 the run is incomplete. On GitHub Actions the verdict is
    in the step's summary too. `calipers run --merge FOLDERS… -o FOLDER` merges the shards of a run
    that --shard has made.
    """
    file, folders = _split_arguments(suite, merge=merge)
    if dry_run:
        _estimate(file, options)
        return
    from calipers.reports.tables.run_tables import watch_run  # noqa: PLC0415
    from calipers.runs.run import run as run_suite  # noqa: PLC0415 (loads Polars)

    again = _make_command(file, output, options, _CHOOSING)
    told_so_far: list[str] = []

    def watch(tally: Tally) -> AbstractContextManager[None]:
        told_so_far.extend(tally.notices)
        say_notices(tally.notices)
        return watch_run(tally)

    try:
        result = run_suite(file, output, watch=watch, merge=folders, **options)
    except KeyboardInterrupt:  # not among the calls: while reading, or scoring
        click.echo(f"stopped: what is done is kept\n  Continue with: {again}", err=True)
        sys.exit(EXIT_INCOMPLETE)
    from calipers.reports.tables.run_tables import list_outcomes  # noqa: PLC0415 (once the calls are made)

    say_notices([notice for notice in result.notices if notice not in told_so_far])
    if result.gate is not None:
        write_verdict(
            result.gate, decided_by=file or Path(result.gate.policy), junit=junit, sarif=sarif
        )
    else:
        unwritten = [path for path in (junit, sarif) if path is not None]
        say_notices([f"{path}: not written, since there is no verdict" for path in unwritten])
    for document in list_outcomes(result):
        show(document)
        click.echo()
    all_calls = _make_command(file, output, options)
    _say_how_to_go_on(result, all_calls if merge else again, all_calls)
    if result.score is not None:
        _say_next(result.folder, _choose_metric_to_explain(result.score, result.gate))
    sys.exit(result.exit_code)


def _split_arguments(
    given: tuple[Path, ...], *, merge: bool
) -> tuple[Path | None, list[Path] | None]:
    files = [path for path in given if path.is_file() or not merge]
    if len(files) > 1:
        raise UsageError(
            f"one suite at a time, not {len(files)}",
            fix="the folders of shards are put together with --merge",
        )
    folders = [path for path in given if path not in files]
    return files[0] if files else None, folders if merge else None


def _estimate(suite: Path | None, options: Mapping[str, Any]) -> None:
    from calipers.reports.tables.run_tables import make_estimate_document  # noqa: PLC0415
    from calipers.runs.plan import estimate_suite  # noqa: PLC0415
    from calipers.runs.prepare import choose_shard, make_call_chooser, prepare_file  # noqa: PLC0415
    from calipers.runs.shards import Shard  # noqa: PLC0415
    from calipers.scores.resolve_options import split_own_options  # noqa: PLC0415

    if suite is None:
        raise UsageError("--merge calls nothing: there is nothing to estimate", fix="name a suite")
    asked, _ = split_own_options("run", RunOptions, options)
    ready = prepare_file(suite)
    if asked.shard is not None:
        ready = choose_shard(ready, Shard.parse(asked.shard))
    say_notices(ready.notices)
    if (chooser := make_call_chooser(ready, asked)) is not None:
        say_notices(tuple(chooser.notices()))
    estimate = estimate_suite(ready.plan, ready.prices)
    show(make_estimate_document(estimate, may_end_early=chooser is not None))


def _say_how_to_go_on(result: RunResult, again: str, all_calls: str) -> None:
    from calipers.reports.tables.run_tables import describe_reuse, list_failures, summarize_run  # noqa: PLC0415

    click.echo(summarize_run(result), err=True)
    if (reused := describe_reuse(result)) is not None:
        click.echo(reused, err=True)
    for line in list_failures(result):
        click.echo(f"  {line}", err=True)
    if result.was_decided_early and not result.is_incomplete:
        saved = f"{result.missing:,} of {result.calls:,} calls were not needed"
        click.echo(f"{click.style('decided', fg='green')}: {saved}", err=True)
        click.echo(f"  Make them anyway: {all_calls}", err=True)
    if not result.is_incomplete:
        return
    why = f" ({result.stopped})" if result.stopped else ""
    click.echo(f"{click.style('incomplete', fg='yellow')}{why}: what is done is kept", err=True)
    click.echo(f"  Continue with: {again}", err=True)


def _choose_metric_to_explain(score: Score, gate: GateResult | None) -> str | None:
    """Return a metric that has a value: one that failed, one that the gate checks, or the first."""
    measured = (metric for group in score.groups for metric in group.metrics.items())
    known = [name for name, value_of in measured if value_of.value is not None]
    checks = () if gate is None else sorted(gate.checks, key=lambda check: not check.blocks)
    asked = (check.name for check in checks if check.name in known)
    return next(iter([*asked, *known]), None)


def _say_next(folder: Path, metric: str | None) -> None:
    page = folder / REPORT
    offers = {"Dashboard": ["view", str(folder)]}
    if page.exists():
        click.echo(f"  Report: {page}", err=True)
    else:
        offers["Write a report"] = ["report", str(folder), "-o", str(page)]
    if metric is not None:
        offers["Explain a metric"] = ["explain", metric, str(folder / RECORDS)]
    for what, arguments in offers.items():
        click.echo(f"  {what}: {shlex.join(['calipers', *arguments])}", err=True)


def _make_command(
    suite: Path | None, output: Path | None, options: Mapping[str, Any], kept: Sequence[str] = ()
) -> str:
    """Return the command that goes on, with its checks and those of its options that are kept."""
    to = ["-o", str(output)] if output else []
    known = list_own_options("run", RunOptions)
    for name in ("checks", *kept):
        if value := options.get(name):
            to += [known[name].flag] if value is True else [known[name].flag, str(value)]
    return shlex.join(["calipers", "run", str(suite or "SUITE"), *to])
