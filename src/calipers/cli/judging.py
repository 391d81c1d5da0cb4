"""`calipers judge FILES…`: have records judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import add_declared_options, add_flag, add_option, add_path
from calipers.cli.shared import open_console, say_notices
from calipers.support.errors import UsageError

if TYPE_CHECKING:
    from calipers.judges.judged import JudgedFiles


def read_settings(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return NAME=VALUE pairs as a mapping; a value is JSON, or else a text."""
    found: dict[str, Any] = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not (name.strip() and mark) or name.strip() in found:
            what = "it is there twice" if mark else "it is not NAME=VALUE"
            raise UsageError(f"--setting {each}: {what}", fix="for example --setting temperature=0")
        try:
            found[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[name.strip()] = value
    return found or None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_option(
    "--rubric",
    help="Rubric: technical_accuracy, constructiveness, planning_rationality, or a rubric file; "
    "with --pairwise it may be left out.",
    metavar="R",
)
@add_flag(
    "--pairwise",
    "Compare the answers of two FILES, A and B, to the same tasks, each pair in both orders.",
)
@add_option(
    "--model",
    help="The judge, as in openai:gpt-4o-mini; several are a panel (repeatable).",
    required=True,
    multiple=True,
    metavar="M",
)
@add_option(
    "--name", help="Name of the judge in the records; by default the model's.", metavar="NAME"
)
@add_option("--base-url", help="URL of a server with an OpenAI-compatible API.", metavar="URL")
@add_option("--api-key-env", help="The environment variable that holds the key.", metavar="NAME")
@add_option(
    "-o",
    "--output",
    help="The judged records, JSON lines; run again to finish what is missing. Without it they go "
    "to standard output, and judging again starts over.",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
)
@add_option(
    "--limit",
    help="Cut texts after the last paragraph within N characters; by default as the rubric says.",
    type=click.IntRange(min=100),
    metavar="N",
)
@add_option(
    "--samples",
    help="Number of judgments of each record by each judge.",
    default=1,
    type=click.IntRange(1, 100),
    metavar="N",
)
@add_option(
    "--escalate",
    help="A better judge, asked where the first is unsure, flagged, or gives no usable answer.",
    metavar="M",
)
@add_option(
    "--near",
    help="With --escalate: a score within S of the rubric's pass_at is escalated.",
    default=0.1,
    type=click.FloatRange(0, 1),
    metavar="S",
)
@add_option(
    "--below",
    help="With --escalate: ask the first judge for its confidence, and escalate below C.",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="C",
)
@add_option(
    "--setting",
    "settings",
    help="A setting of the models, such as temperature=0.5 or max_tokens=800 (repeatable). "
    "Without it, temperature 0 where the model takes it.",
    multiple=True,
    metavar="NAME=VALUE",
    callback=read_settings,
)
@add_option(
    "--budget-usd",
    help="Stop before judging costs more than this, over all runs with this output.",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
)
@add_option(
    "--budget-calls",
    help="Stop before more answers than this are asked for, over all runs with this output.",
    type=click.IntRange(min=1),
    metavar="N",
)
@add_path(
    "--prices",
    help="Prices, YAML or JSON: {MODEL: {input: 3, output: 15}}, USD per million tokens.",
)
@add_option(
    "--cache",
    help="Cache judgments in FOLDER, and reuse them.",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
)
@add_option(
    "--concurrency",
    help="Calls in flight at a time.",
    default=32,
    type=click.IntRange(min=1),
    metavar="N",
)
@add_option(
    "--retries",
    help="Attempts after the first, on rate limits, server errors and broken connections.",
    default=5,
    type=click.IntRange(min=0),
    metavar="N",
)
@add_option(
    "--timeout",
    help="Time limit of one attempt.",
    default=120.0,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
)
@add_flag("--dry-run", "Say how many calls are left and what they may cost.")
@add_declared_options("judge")
def files(
    files: tuple[str, ...],
    output: Path | None,
    *,
    dry_run: bool,
    options: dict[str, Any],
    **judging: Any,
) -> None:
    """Judge the records in FILES by a rubric, in one call each, and write them with judgments.

    With --pairwise, say of each task whose answer is better, A's or B's: a line per task.

    Exit codes: 0 all are judged, 2 a mistake, 3 judgments are missing: run again to go on.
    """
    with TemporaryDirectory() as folder:
        path = output or Path(folder, "judged.jsonl")
        if dry_run:
            _estimate(files, path, judging | options)
            return
        from calipers.judges.api import judge_records  # noqa: PLC0415 (loads Polars)
        from calipers.reports.run import watch_run  # noqa: PLC0415

        result = judge_records(list(files), path, watch=watch_run, **judging, **options)
        if output is None and path.exists():
            with path.open("rb") as lines:
                copyfileobj(lines, sys.stdout.buffer)
    _say(result, kept=output is not None)
    sys.exit(result.exit_code)


def _estimate(files: tuple[str, ...], output: Path, options: Any) -> None:
    from calipers.judges.estimate import estimate_judging  # noqa: PLC0415
    from calipers.judges.options import make_work  # noqa: PLC0415 (loads Polars)
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
