"""`calipers rank`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_flag, add_option
from calipers.cli.output import Put, add_output_options

_AUTO = "auto"  # as calipers.rank(tasks="auto")


@click.command(cls=GroupedCommand, first=("by", "metrics", "tasks", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("rank")
@add_option(
    "--tasks",
    help="Add a column per value of FIELD, a field of the tasks: category or id, for example. "
    "Without FIELD, per category where tasks have one, otherwise per task.",
    group="output",
    metavar="[FIELD]",
    is_flag=False,
    flag_value=_AUTO,
    default=None,
)
@add_option(
    "--better",
    help="Which values are better, for metrics that do not say so, such as mean(FIELD).",
    group="statistics",
    type=click.Choice(("higher", "lower")),
)
@add_flag(
    "--bradley-terry", "Add each system's strength by its wins on common tasks.", "statistics"
)
@add_flag(
    "--unpaired",
    "Treat the systems as independent samples, each with all of its own tasks.",
    "statistics",
)
@add_output_options
def rank(files: tuple[str, ...], put: Put, options: dict[str, Any], **own: Any) -> None:
    """Rank systems: value, rank and significance group of each, adjusted for all comparisons.

    Systems are told apart by --by; without it by model and tier, whichever has several values;
    otherwise, and with --by file, each file is one. They are compared on the tasks that all of
    them have. Files of pairwise judgments (model_a, model_b, winner) are ranked by Bradley-Terry
    strengths.
    """
    from calipers.comparisons.api import rank as rank_systems  # noqa: PLC0415 (loads Polars)

    own["tasks"] = own["tasks"] or False
    result = rank_systems(*files, **own, **options)
    put(result)
