"""`calipers agree`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.output import add_output_options, put
from calipers.cli.shared import limit_options, say_empty


def _split_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@limit_options
@click.option(
    "--raters",
    callback=_split_names,
    metavar="A,B,…",
    help="Columns with one rater's ratings each, or names of judges; by default all judges.",
)
@click.option(
    "--unit",
    callback=_split_names,
    metavar="FIELD,…",
    help="The fields that identify what was rated; by default each row is one unit.",
)
@click.option(
    "--value",
    metavar="FIELD",
    help="Which rating: weighted_score (the default), passed or scores.NAME of judgments; "
    "a column with --rater-field.",
)
@click.option("--rater-field", metavar="FIELD", help="A row per rating: the rater is in FIELD.")
@click.option(
    "--level",
    type=click.Choice(("nominal", "ordinal", "interval")),
    default="interval",
    show_default=True,
    help="Type of the ratings: labels, ranks or numbers. Measures that need more are left out.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    metavar="C",
    help="Confidence level of the intervals.",
)
@click.option(
    "--cluster",
    callback=_split_names,
    metavar="FIELD,…",
    help="Treat units that share FIELD as dependent; by default the runs of an id.",
)
@click.option(
    "--seed", default=0, show_default=True, help="Recorded in the output; nothing is resampled."
)
@add_output_options
def agree(files: tuple[str, ...], output_format: str, output: Path | None, **options: Any) -> None:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations."""
    from calipers.comparisons.api import agree as measure  # noqa: PLC0415 (loads Polars)

    result = measure(list(files), **options)
    put(result, output_format, output)
    if not result.units:
        say_empty(files)
    sys.exit(result.exit_code)
