"""`calipers judge`: have records judged, calibrate judges, audit them."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import FILE, GroupedCommand, add_declared_options, add_flag, add_output
from calipers.cli.output import (
    Put,
    add_format_option,
    add_output_options,
    end,
    say_notices,
    show,
    write,
)
from calipers.cli.workflow_commands import keep_json
from calipers.judges.judge_options import AuditOptions, JudgeOptions
from calipers.support.errors import UsageError

if TYPE_CHECKING:
    from calipers.judges.judge_files import JudgedFiles


class JudgeGroup(click.Group):
    """Subcommands by their name; without one, the command named `default`."""

    default = "files"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front of arguments that name no subcommand."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            close = get_close_matches(args[0], self.commands, n=1, cutoff=0.8)
            if close and not Path(args[0]).exists():
                raise UsageError(
                    f"judge {args[0]}: no such subcommand, and no such file",
                    fix=f"did you mean {close[0]}?",
                )
            args = [self.default, *args]
        return super().parse_args(ctx, args)


@click.group(cls=JudgeGroup)
def judge() -> None:
    """Judge records (`judge FILES…`, as `judge files FILES…`); calibrate and audit judges."""


@judge.command("files", cls=GroupedCommand, first=("rubric", "model", "output", "dry_run"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("judge", JudgeOptions)
@add_output(
    "The judged records, JSON lines; run again to finish what is missing. Without it they go "
    "to standard output, and judging again starts over.",
    type=FILE,
)
@add_flag("--dry-run", "Say how many calls are left and what they may cost.")
def judge_files(
    files: tuple[str, ...], output: Path | None, *, dry_run: bool, options: dict[str, Any]
) -> None:
    """Judge the records in FILES by a rubric, in one call each, and write them with judgments.

    With --pairwise, say of each task whose answer is better, A's or B's: a line per task.

    Exit codes: 0 all are judged, 2 a mistake, 3 judgments are missing: run again to go on.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        path = output or Path(folder, "judged.jsonl")
        if dry_run:
            _estimate(files, path, options)
            return
        from calipers.judges.judge_api import judge_records  # noqa: PLC0415 (loads Polars)
        from calipers.reports.tables.run_tables import watch_run  # noqa: PLC0415

        result = judge_records(list(files), path, watch=watch_run, **options)
        if output is None and path.exists():
            with path.open(encoding="utf-8", newline="") as lines:
                sys.stdout.buffer.writelines(keep_json(line).encode() for line in lines)
    _say(result, kept=output is not None)
    sys.exit(result.exit_code)


@judge.command(cls=GroupedCommand, first=("output", "output_format", "confidence"))
@click.argument("judged", metavar="JUDGED")
@click.argument("human", metavar="HUMAN")
@add_declared_options("calibrate")
@add_output(
    "Write the calibration file, which is bound to the judge's model and the rubric.", type=FILE
)
@add_format_option("table", "json")
def calibrate(
    judged: str, human: str, output: Path | None, options: dict[str, Any], output_format: str
) -> None:
    """Compare the judges in JUDGED with what people say of the same records in HUMAN.

    HUMAN holds records with the same id (and model, tier, run, where it has them) and `passed`,
    `weighted_score` or `scores`, or `judgments` of several people. Records that were drawn by
    stratum say so, as those of `view --rate` do: `stratum` and `stratum_size`.
    """
    from calipers.judges.judge_api import calibrate_judges  # noqa: PLC0415 (loads Polars)

    result = calibrate_judges(judged, human, **options)
    if output is not None:
        write(output, result.to_json() + "\n")
    if output_format == "json":
        click.echo(keep_json(result.to_json()))
    else:
        show(result)
    if result.exit_code:
        click.echo(
            f"{click.style('empty', fg='yellow')}: no record of {judged} is in {human}", err=True
        )
    sys.exit(result.exit_code)


@judge.command(cls=GroupedCommand, first=("weights", "before", "by", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("audit", AuditOptions)
@add_output_options
def audit(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Audit the judgments in FILES: agreement, each judge's bias, and scores against own items.

    Of answers to the same task: whether longer ones, or those of the judge's own model, score more.
    Of answers compared in pairs (judge --pairwise): the judge's preference for the answer that
    stands first, for the longer one, and for those of its own model.
    """
    from calipers.judges.judge_api import audit_judges  # noqa: PLC0415 (loads Polars)

    result = audit_judges(list(files), **options)
    put(result)
    end(result, files, result.judged, "judgments" if result.records else "records")


def _estimate(files: tuple[str, ...], output: Path, options: Any) -> None:
    from calipers.judges.judging_plan import estimate_judging, make_work  # noqa: PLC0415
    from calipers.records.reading_options import READING_KEYWORDS, read_with  # noqa: PLC0415
    from calipers.reports.tables.run_tables import make_estimate_document  # noqa: PLC0415

    with read_with(**{name: options.get(name) for name in READING_KEYWORDS}):
        estimate = estimate_judging(make_work(list(files), output, options))
    show(make_estimate_document(estimate))


def _say(result: JudgedFiles, *, kept: bool) -> None:
    from calipers.reports.number_format import format_dollars, strip_controls  # noqa: PLC0415

    say_notices(result.notices)
    what = "records" if result.pairs is None else "comparisons"
    facts = [f"{result.judged:,} of {result.records:,} {what} judged"]
    counts = {
        "judgments failed": result.failed,
        "not judged (nothing to read, or a failed call)": result.not_judged,
        "flagged": result.flagged,
        "cut": result.cut,
        "escalated": result.escalated,
        "bad rows left out": result.bad_rows,
    }
    facts += [f"{count:,} {what}" for what, count in counts.items() if count]
    facts.append(f"{result.tokens:,.0f} tokens")
    if result.cost_usd is not None:
        facts.append(format_dollars(result.cost_usd))
    where = f"{strip_controls(result.output)}: " if kept else ""
    click.echo(f"{where}{', '.join(facts)}", err=True)
    if (pairs := result.pairs) is not None:
        a, b = strip_controls(pairs.a), strip_controls(pairs.b)
        won = f"{a} wins {pairs.a_wins:,}, {b} {pairs.b_wins:,}"
        differ = f" ({pairs.inconsistent:,} differ with the order)" if pairs.inconsistent else ""
        lost = f", {pairs.undecided:,} undecided" if pairs.undecided else ""
        click.echo(f"  {won}, {pairs.ties:,} ties{differ}{lost}", err=True)
    for use in result.by_model if len(result.by_model) > 1 else ():
        cost = "" if use.cost_usd is None else f", {format_dollars(use.cost_usd)}"
        of = f"{use.judgments:,} judgments, {use.tokens:,.0f} tokens{cost}"
        click.echo(f"  {strip_controls(use.model)}: {of}", err=True)
    for count, message in result.failures:
        click.echo(f"  {count:,} × {strip_controls(message)}", err=True)
    if result.exit_code:
        why = " (it was interrupted)" if result.interrupted else ""
        why = " (the budget is spent)" if result.spent else why
        why = " (a judge gives no valid answers)" if result.given_up else why
        then = "what is done is kept; continue with the same command"
        then = f"{then} and a larger budget" if result.spent else then
        then = then if kept else "-o FILE keeps what is done, and goes on from there"
        click.echo(f"{click.style('incomplete', fg='yellow')}{why}: {then}", err=True)
