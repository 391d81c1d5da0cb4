"""`calipers run`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import add_flag, add_limits, add_option, add_path
from calipers.cli.shared import open_console, say_notices
from calipers.cli.verdicts import add_verdict_options, write_verdict
from calipers.records.result_folder import RECORDS, REPORT
from calipers.support.errors import EXIT_INCOMPLETE, UsageError

if TYPE_CHECKING:
    from calipers.gates.result import GateResult
    from calipers.runs.finish import RunResult
    from calipers.scores.results import Score


@click.command()
@click.argument("suite", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SUITE")
@add_limits
@add_path(
    "-o",
    "--output",
    help="Write the results to FOLDER; without it, to results/NAME/TIMESTAMP.",
    metavar="FOLDER",
)
@add_flag("--fresh", "Call everything again, in a new folder; the old results are kept.")
@add_flag("--dry-run", "Say how many calls there are and what they may cost.")
@add_flag("--until-decided", "Stop as soon as the verdict of the suite's gate is certain.")
@add_option(
    "--until-better",
    help="Stop as soon as it is certain which of the suite's two systems is better in METRIC.",
    metavar="METRIC",
)
@add_option(
    "--evidence",
    help="With --until-better: better on tasks like these, or on exactly these tasks.",
    type=click.Choice(["interval", "point"]),
    default="interval",
)
@add_option(
    "--seed",
    help="With --until-decided and --until-better: random seed for the order of the tasks.",
    type=click.IntRange(min=0),
    default=0,
)
@add_option(
    "--shard",
    help="Call the systems on every N-th task alone, from the I-th on, in a folder of its own.",
    metavar="I/N",
)
@add_flag(
    "--merge",
    "Put the folders of all shards, named instead of SUITE, together in the folder of -o.",
)
@add_path("--checks", help="Add the checks in FILE, YAML or JSON, to those of the suite.")
@add_verdict_options
@add_flag("--no-report", "Write no report.html into the folder.")
def run(
    suite: tuple[Path, ...],
    output: Path | None,
    *,
    fresh: bool,
    dry_run: bool,
    shard: str | None,
    merge: bool,
    no_report: bool,
    checks: Path | None,
    junit: Path | None,
    sarif: Path | None,
    **until: Any,  # when to stop
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
        _estimate(file, until, shard)
        return
    from calipers.reports.run import watch_run  # noqa: PLC0415
    from calipers.runs.api import run as run_suite  # noqa: PLC0415 (loads Polars)

    again = _make_command(file, output, checks, until, shard)
    try:
        result = run_suite(
            file,
            output,
            fresh=fresh,
            report=not no_report,
            watch=watch_run,
            checks=checks,
            shard=shard,
            merge=folders,
            **until,
        )
    except KeyboardInterrupt:  # while reading or scoring; calls handle it themselves
        click.echo(f"stopped: what is done is kept\n  Continue with: {again}", err=True)
        sys.exit(EXIT_INCOMPLETE)
    say_notices(result.notices)
    if result.gate is not None:
        write_verdict(
            result.gate, decided_by=file or Path(result.gate.policy), junit=junit, sarif=sarif
        )
    else:
        unwritten = [each for each in (junit, sarif) if each is not None]
        say_notices([f"{each}: not written, since there is no verdict" for each in unwritten])
    _show(result)
    if merge:
        again = _make_command(file, output, checks)
    _say_how_to_go_on(result, again, _make_command(file, output, checks))
    if result.score is not None:
        _say_next(result.folder, _choose_metric_to_explain(result.score, result.gate))
    sys.exit(result.exit_code)


def _split_arguments(
    given: tuple[Path, ...], *, merge: bool
) -> tuple[Path | None, list[Path] | None]:
    """Return the suite file, and the folders to merge."""
    if merge:
        files = [each for each in given if each.is_file()]
        folders = [each for each in given if each not in files]
        return _require_one(files) if files else None, folders
    return _require_one(given), None


def _require_one(files: Sequence[Path]) -> Path:
    if len(files) > 1:
        raise UsageError(
            f"one suite at a time, not {len(files)}",
            fix="the folders of shards are put together with --merge",
        )
    return files[0]


def _estimate(suite: Path | None, until: Mapping[str, Any], shard: str | None) -> None:
    from calipers.reports.run import estimate_document  # noqa: PLC0415
    from calipers.reports.terminal import show_document  # noqa: PLC0415
    from calipers.runs.estimate import estimate_suite  # noqa: PLC0415
    from calipers.runs.preparing import choose_shard, make_call_chooser, prepare_file  # noqa: PLC0415
    from calipers.runs.sharding import Shard  # noqa: PLC0415

    if suite is None:
        raise UsageError("--merge calls nothing: there is nothing to estimate", fix="name a suite")
    ready = prepare_file(suite)
    if shard is not None:
        ready = choose_shard(ready, Shard.parse(shard))
    say_notices(ready.notices)
    if (chooser := make_call_chooser(ready, **until)) is not None:
        say_notices(tuple(chooser.notices()))
    estimate = estimate_suite(ready.plan, ready.prices)
    show_document(estimate_document(estimate, may_end_early=chooser is not None), open_console())


def _show(result: RunResult) -> None:
    from calipers.reports.run import list_outcomes  # noqa: PLC0415 (loads renderers)
    from calipers.reports.terminal import show_document  # noqa: PLC0415

    for document in list_outcomes(result):
        show_document(document, open_console())
        click.echo()


def _say_how_to_go_on(result: RunResult, again: str, all_calls: str) -> None:
    from calipers.reports.run import list_failures, reuse_line, run_summary  # noqa: PLC0415

    click.echo(run_summary(result), err=True)
    if (reused := reuse_line(result)) is not None:
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
    known = [
        name
        for group in score.groups
        for name, measured in group.metrics.items()
        if measured.value is not None
    ]
    checks = () if gate is None else sorted(gate.checks, key=lambda check: not check.blocks)
    asked = (check.name for check in checks if check.name in known)
    return next(iter([*asked, *known]), None)


def _say_next(folder: Path, metric: str | None) -> None:
    """Say which commands show more of the results."""
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
    suite: Path | None,
    output: Path | None,
    checks: Path | None,
    until: Mapping[str, Any] | None = None,
    shard: str | None = None,
) -> str:
    to = ["-o", str(output)] if output else []
    to += ["--checks", str(checks)] if checks else []
    to += ["--shard", shard] if shard else []
    return shlex.join(["calipers", "run", str(suite or "SUITE"), *to, *_list_until(until or {})])


def _list_until(until: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options that say when to stop."""
    better = until.get("until_better")
    if not (better or until.get("until_decided")):
        return
    yield from ("--until-better", better) if better else ("--until-decided",)
    if better and until["evidence"] != "interval":
        yield from ("--evidence", until["evidence"])
    if until["seed"]:
        yield from ("--seed", str(until["seed"]))
