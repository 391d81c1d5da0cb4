"""`calipers agree`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.shared import FORMATS, console, say_empty, write

if TYPE_CHECKING:
    from calipers.agreeing import Agreement


def _names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@click.option(
    "--raters",
    callback=_names,
    metavar="A,B,…",
    help="Columns that hold a rater's ratings each, or names of judges; without it, all judges.",
)
@click.option(
    "--unit",
    callback=_names,
    metavar="FIELD,…",
    help="The fields that tell one rated thing from another; without it, each row is one.",
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
    help="What ratings are: labels, ranks or numbers. Measures beyond it are left out.",
)
@click.option(
    "--confidence", default=0.95, show_default=True, metavar="C", help="Of the intervals."
)
@click.option(
    "--cluster",
    callback=_names,
    metavar="FIELD,…",
    help="Units that share FIELD depend on each other; without it, the runs of an id.",
)
@click.option(
    "--seed", default=0, show_default=True, help="Kept in the output; nothing is resampled."
)
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="table", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def agree(files: tuple[str, ...], output_format: str, output: Path | None, **options: Any) -> None:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations."""
    from calipers.api import agree as measure  # noqa: PLC0415 (loads Polars)

    result = measure(list(files), **options)
    if output is not None:
        write(output, _as_text(result, output_format))
    elif output_format == "table":
        from calipers.reporting.agreement import agreement_text  # noqa: PLC0415

        agreement_text(result, console())
    else:
        click.echo(_as_text(result, output_format), nl=False)
    if not result.units:
        say_empty(files)
    sys.exit(result.exit_code)


def _as_text(result: Agreement, output_format: str) -> str:
    if output_format == "json":
        return result.to_json() + "\n"
    if output_format == "table":
        return str(result)
    from calipers.reporting.agreement import agreement_csv, agreement_markdown  # noqa: PLC0415

    return agreement_csv(result) if output_format == "csv" else agreement_markdown(result)
