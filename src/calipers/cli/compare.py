"""`calipers compare`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import (
    GroupedCommand,
    add_declared_options,
    add_flag,
    add_option,
    add_path,
)
from calipers.cli.output import Put, add_output_options


@click.command(
    cls=GroupedCommand, first=("metrics", "margin", "between", "output_format", "output")
)
@click.argument("files", nargs=-1, required=True, metavar="BASE CANDIDATE…")
@add_declared_options("compare")
@add_option(
    "--between",
    help="Compare the parts of one file, one per value of FIELD.",
    group="selection",
    metavar="FIELD",
)
@add_flag(
    "--unpaired", "Treat the runs as independent samples: rank tests, Cliff's delta.", "statistics"
)
@add_flag("--attribute", "Split the change: model, scorer, tasks added and removed.", "statistics")
@add_option(
    "--base-normalize",
    help="With --attribute: how the base's answers were compared when it was scored.",
    group="metrics",
    type=click.Choice(("numeric", "text")),
)
@add_path("--flips", help="Write the tasks that flipped to a .jsonl.", group="output")
@add_option(
    "--margin",
    help="Test whether CANDIDATE is worse by more than M, and whether both are equivalent.",
    group="statistics",
    metavar="M",
)
@add_output_options
def compare(files: tuple[str, ...], put: Put, options: dict[str, Any], **own: Any) -> None:
    """Compare runs task by task: each metric's difference with its interval and p-value.

    Tasks are paired by id, several rows of one averaged first. More than two files: all pairs.
    """
    from calipers.comparisons.api import compare as compare_runs  # noqa: PLC0415 (loads Polars)

    result = compare_runs(*files, **own, **options)
    put(result)
