"""`calipers compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.choices import choice_options, policy_option
from calipers.cli.output import output_options, put
from calipers.cli.shared import (
    PROFILES,
    evidence_options,
    record_options,
    say_notices,
    tasks_option,
)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="BASE CANDIDATE…")
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
    "--between", metavar="FIELD", help="Compare the parts of one file that FIELD tells apart."
)
@click.option(
    "--unpaired",
    is_flag=True,
    help="Treat the runs as independent samples: rank tests, Cliff's delta.",
)
@click.option(
    "--attribute", is_flag=True, help="Split the change: model, scorer, tasks added and removed."
)
@click.option(
    "--base-normalize",
    type=click.Choice(("numeric", "text")),
    help="With --attribute: how the base's answers were compared when it was scored.",
)
@click.option(
    "--flips", type=click.Path(path_type=Path), help="Write the tasks that flipped to a .jsonl."
)
@click.option(
    "--margin",
    metavar="M",
    help="Test whether CANDIDATE is worse by more than M, and whether both are equivalent.",
)
@click.option(
    "--weight",
    type=click.Choice(("task", "row")),
    default="task",
    show_default=True,
    help="Give every task the same weight in a mean, or every row as `score` does.",
)
@tasks_option
@output_options
def compare(
    files: tuple[str, ...], output_format: str, output: Path | None, **options: Any
) -> None:
    """Compare runs task by task: each metric's difference with its interval and p-value.

    Tasks are paired by id, several rows of one averaged first. More than two files: all pairs.
    """
    from calipers.comparisons.api import compare as compare_runs  # noqa: PLC0415 (loads Polars)

    result = compare_runs(*files, **options)
    say_notices(result.notices)
    put(result, output_format, output)
