"""`calipers rank`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options
from calipers.comparisons.comparison_options import RankOptions


@click.command(cls=GroupedCommand, first=("by", "metrics", "tasks", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("rank", RankOptions)
@add_output_options
def rank(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Rank systems: value, rank and significance group of each, adjusted for all comparisons.

    Systems are told apart by --by; without it by model, tier and variant, whichever have several
    values; otherwise, and with --by file, each file is one. They are compared on the tasks that all
    of them have. Files of pairwise judgments (model_a, model_b, winner) are ranked by Bradley-Terry
    strengths.
    """
    from calipers.comparisons.api import rank as rank_systems  # noqa: PLC0415 (loads Polars)

    put(rank_systems(*files, **options))
