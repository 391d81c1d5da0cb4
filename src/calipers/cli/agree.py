"""`calipers agree`."""

from __future__ import annotations

import sys
from typing import Any

import click

from calipers.cli.options import add_limits, add_option
from calipers.cli.output import Put, add_output_options
from calipers.cli.shared import say_empty


def _split_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_limits
@add_option(
    "--raters",
    help="Columns with one rater's ratings each, or names of judges; by default all judges.",
    callback=_split_names,
    metavar="A,B,…",
)
@add_option(
    "--unit",
    help="The fields that identify what was rated; by default each row is one unit.",
    callback=_split_names,
    metavar="FIELD,…",
)
@add_option(
    "--value",
    help="Which rating: weighted_score (the default), passed or scores.NAME of judgments; "
    "a column with --rater-field.",
    metavar="FIELD",
)
@add_option("--rater-field", help="A row per rating: the rater is in FIELD.", metavar="FIELD")
@add_option(
    "--level",
    help="Type of the ratings: labels, ranks or numbers. Measures that need more are left out.",
    type=click.Choice(("nominal", "ordinal", "interval")),
    default="interval",
)
@add_option("--confidence", help="Confidence level of the intervals.", default=0.95, metavar="C")
@add_option(
    "--cluster",
    help="Treat units that share FIELD as dependent; by default the runs of an id.",
    callback=_split_names,
    metavar="FIELD,…",
)
@add_option("--seed", help="Recorded in the output; nothing is resampled.", default=0)
@add_output_options
def agree(files: tuple[str, ...], put: Put, **options: Any) -> None:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations."""
    from calipers.comparisons.api import agree as measure  # noqa: PLC0415 (loads Polars)

    result = measure(list(files), **options)
    put(result)
    if not result.units:
        say_empty(files)
    sys.exit(result.exit_code)
