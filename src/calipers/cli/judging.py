"""`calipers judge FILES…`: have records judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import FILE, GroupedCommand, add_declared_options, add_flag, add_output
from calipers.cli.shared import open_console, say_notices
from calipers.judges.options import JudgeOptions

if TYPE_CHECKING:
    from calipers.judges.judged import JudgedFiles


@click.command(cls=GroupedCommand, first=("rubric", "model", "output", "dry_run"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("judge", JudgeOptions)
@add_output(
    "The judged records, JSON lines; run again to finish what is missing. Without it they go "
    "to standard output, and judging again starts over.",
    type=FILE,
)
@add_flag("--dry-run", "Say how many calls are left and what they may cost.")
def files(
    files: tuple[str, ...], output: Path | None, *, dry_run: bool, options: dict[str, Any]
) -> None:
    """Judge the records in FILES by a rubric, in one call each, and write them with judgments.

    With --pairwise, say of each task whose answer is better, A's or B's: a line per task.

    Exit codes: 0 all are judged, 2 a mistake, 3 judgments are missing: run again to go on.
    """
    from shutil import copyfileobj  # noqa: PLC0415 (not for --help)
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        path = output or Path(folder, "judged.jsonl")
        if dry_run:
            _estimate(files, path, options)
            return
        from calipers.judges.api import judge_records  # noqa: PLC0415 (loads Polars)
        from calipers.reports.run import watch_run  # noqa: PLC0415

        result = judge_records(list(files), path, watch=watch_run, **options)
        if output is None and path.exists():
            with path.open("rb") as lines:
                copyfileobj(lines, sys.stdout.buffer)
    _say(result, kept=output is not None)
    sys.exit(result.exit_code)


def _estimate(files: tuple[str, ...], output: Path, options: Any) -> None:
    from calipers.judges.estimate import estimate_judging  # noqa: PLC0415
    from calipers.judges.preparing import make_work  # noqa: PLC0415 (loads Polars)
    from calipers.records.reading import KEYWORDS, read_with  # noqa: PLC0415
    from calipers.reports.run import estimate_document  # noqa: PLC0415
    from calipers.reports.terminal import show_document  # noqa: PLC0415

    with read_with(**{name: options.get(name) for name in KEYWORDS}):
        estimate = estimate_judging(make_work(list(files), output, options))
    show_document(estimate_document(estimate), open_console())


def _say(result: JudgedFiles, *, kept: bool) -> None:
    from calipers.reports.figures import strip_controls  # noqa: PLC0415
    from calipers.reports.run import format_dollars  # noqa: PLC0415

    say_notices(result.notices)
    what = "records" if result.pairs is None else "comparisons"
    said = [f"{result.judged:,} of {result.records:,} {what} judged"]
    counts = {
        "judgments failed": result.failed,
        "not judged (nothing to read, or a failed call)": result.not_judged,
        "flagged": result.flagged,
        "cut": result.cut,
        "escalated": result.escalated,
        "bad rows left out": result.bad_rows,
    }
    said += [f"{count:,} {what}" for what, count in counts.items() if count]
    said.append(f"{result.tokens:,.0f} tokens")
    if result.cost_usd is not None:
        said.append(format_dollars(result.cost_usd))
    where = f"{strip_controls(result.output)}: " if kept else ""
    click.echo(f"{where}{', '.join(said)}", err=True)
    if (pairs := result.pairs) is not None:
        a, b = strip_controls(pairs.a), strip_controls(pairs.b)
        won = f"{a} wins {pairs.a_wins:,}, {b} {pairs.b_wins:,}"
        differ = f" ({pairs.inconsistent:,} differ with the order)" if pairs.inconsistent else ""
        lost = f", {pairs.undecided:,} undecided" if pairs.undecided else ""
        click.echo(f"  {won}, {pairs.ties:,} ties{differ}{lost}", err=True)
    for each in result.by_model if len(result.by_model) > 1 else ():
        cost = "" if each.cost_usd is None else f", {format_dollars(each.cost_usd)}"
        of = f"{each.judgments:,} judgments, {each.tokens:,.0f} tokens{cost}"
        click.echo(f"  {strip_controls(each.model)}: {of}", err=True)
    for count, message in result.failures:
        click.echo(f"  {count:,} × {strip_controls(message)}", err=True)
    if result.exit_code:
        why = " (it was interrupted)" if result.interrupted else ""
        why = " (the budget is spent)" if result.spent else why
        then = "what is done is kept; continue with the same command"
        then = f"{then} and a larger budget" if result.spent else then
        then = then if kept else "-o FILE keeps what is done, and goes on from there"
        click.echo(f"{click.style('incomplete', fg='yellow')}{why}: {then}", err=True)
