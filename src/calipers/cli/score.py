"""`calipers score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.choices import choice_options, policy_option
from calipers.cli.output import output_options, put
from calipers.cli.shared import (
    PROFILES,
    engine_option,
    evidence_options,
    progress,
    record_options,
    say_empty,
    say_notices,
    tasks_option,
)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@record_options
@choice_options
@policy_option
@evidence_options
@click.option(
    "--profile", type=click.Choice(PROFILES), help="Compute only the metrics of one family."
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compute only the metric NAME (repeatable).",
)
@click.option(
    "--baseline",
    default="T0",
    show_default=True,
    metavar="TIER",
    help="The tier that the others are compared with.",
)
@engine_option
@tasks_option
@click.option(
    "--weight",
    type=click.Choice(("task", "row")),
    default="row",
    show_default=True,
    help="What counts the same in a mean: every row, or every task as in `compare`.",
)
@output_options
@click.option(
    "--per-sample",
    type=click.Path(path_type=Path),
    help="Write a row per record to a .parquet or .jsonl file.",
)
@click.option(
    "--per-task",
    type=click.Path(path_type=Path),
    help="Write a row per group and task to a .parquet or .jsonl file.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Draw the profile's figures, as SVG and PNG, into the folder DIR.",
)
@click.option(
    "--bad-rows",
    type=click.Path(path_type=Path),
    help="With --on-bad skip: write the bad rows and their reasons to a .jsonl file.",
)
@click.option(
    "--calibration",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Correct judged means by this file of `judge calibrate` (repeatable).",
)
@click.option("--hash", "hash_inputs", is_flag=True, help="Hash inputs larger than 64 MiB too.")
def score(
    files: tuple[str, ...],
    output_format: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin.

    Logs of Inspect, lm-eval, promptfoo, garak, OpenAI evals and OpenTelemetry are known by what is
    in them.
    """
    from calipers.scores.api import score as measure  # noqa: PLC0415 (loads Polars)

    with progress() as show:
        result = measure(list(files), progress=show, **options)
    say_notices(result.notices)
    put(result, output_format, output)
    if not result.records:
        say_empty(files)
    sys.exit(result.exit_code)
