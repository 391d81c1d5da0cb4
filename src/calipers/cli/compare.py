"""`calipers compare`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options
from calipers.comparisons.comparison_options import CompareOptions


@click.command(
    cls=GroupedCommand, first=("metrics", "margin", "between", "base", "output_format", "output")
)
@click.argument("files", nargs=-1, required=True, metavar="BASE CANDIDATE…")
@add_declared_options("compare", CompareOptions)
@add_output_options
def compare(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Compare runs task by task: each metric's difference with its interval and p-value.

    Tasks are paired by id, several rows of one averaged first. More than two files: all pairs.
    """
    from calipers.comparisons.api import compare as compare_runs  # noqa: PLC0415 (loads Polars)

    put(compare_runs(*files, **options))
