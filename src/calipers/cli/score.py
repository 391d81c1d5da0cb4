"""`calipers score`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_own_option
from calipers.cli.output import add_output_options, put
from calipers.cli.shared import limit_options, say_empty, say_notices, show_progress

if TYPE_CHECKING:
    from calipers.reports.destinations import Destination
    from calipers.scores.results import Score


@click.command(cls=GroupedCommand, first=("by", "metrics", "map", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("score")
@limit_options
@add_own_option(
    "output",
    "--to",
    multiple=True,
    metavar="NAME[:WHERE]",
    help="Send the score to mlflow[:URI], wandb[:PROJECT], otel[:ENDPOINT] or"
    " every_eval_ever:FOLDER too.",
)
@partial(add_output_options, further=("csv-wide",))
def score(
    files: tuple[str, ...],
    to: tuple[str, ...],
    output_format: str,
    output: Path | None,
    options: dict[str, Any],
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin.

    Logs of Inspect, lm-eval, promptfoo, MLflow, Langfuse, OpenTelemetry and many more tools
    (docs/logs.md) are recognized by their content.
    """
    from calipers.scores.api import score as measure  # noqa: PLC0415 (loads Polars)

    destinations = _read_destinations(to)
    with show_progress() as show:
        result = measure(list(files), progress=show, **options)
    say_notices(result.notices)
    put(result, output_format, output)
    if not result.records:
        say_empty(files)
    if destinations and result.records:
        _send(result, destinations)
    sys.exit(result.exit_code)


def _read_destinations(to: tuple[str, ...]) -> list[Destination]:
    """Return where the score goes too, checked before there is any work."""
    if not to:
        return []
    from calipers.reports.destinations import read_destination  # noqa: PLC0415

    return [read_destination(each) for each in to]


def _send(result: Score, destinations: list[Destination]) -> None:
    from calipers.reports.destinations import send_all  # noqa: PLC0415

    for line in send_all(result, destinations):
        click.echo(line, err=True)
