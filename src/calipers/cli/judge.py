"""`calipers judge`: its subcommands, and `audit`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from calipers.cli.calibrate import calibrate
from calipers.cli.judging import files as judge_files
from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options
from calipers.cli.shared import end
from calipers.judges.options import AuditOptions
from calipers.support.errors import UsageError


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


judge.add_command(judge_files, "files")
judge.add_command(calibrate)


@judge.command(cls=GroupedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("audit", AuditOptions)
@add_output_options
def audit(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Audit the judgments in FILES: agreement, each judge's bias, and scores against own items.

    Of answers to the same task: whether longer ones, or those of the judge's own model, score more.
    Of answers compared in pairs (judge --pairwise): the judge's preference for the answer that
    stands first, for the longer one, and for those of its own model.
    """
    from calipers.judges.api import audit_judges  # noqa: PLC0415 (loads Polars)

    result = audit_judges(list(files), **options)
    put(result)
    end(result, files, result.judged, "judgments" if result.records else "records")
