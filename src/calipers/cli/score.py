"""`calipers score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import add_output_options, put
from calipers.cli.shared import limit_options, say_empty, say_notices, show_progress


@click.command(cls=GroupedCommand, first=("by", "metrics", "map", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("score")
@limit_options
@add_output_options
def score(
    files: tuple[str, ...],
    output_format: str,
    output: Path | None,
    options: dict[str, Any],
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin.

    Logs of Inspect, lm-eval, promptfoo, DeepEval, garak, OpenAI evals and OpenTelemetry are
    recognized by their content.
    """
    from calipers.scores.api import score as measure  # noqa: PLC0415 (loads Polars)

    with show_progress() as show:
        result = measure(list(files), progress=show, **options)
    say_notices(result.notices)
    put(result, output_format, output)
    if not result.records:
        say_empty(files)
    sys.exit(result.exit_code)
