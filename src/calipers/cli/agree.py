"""`calipers agree`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options, end
from calipers.comparisons.comparison_options import AgreeOptions


@click.command(cls=GroupedCommand, first=("raters", "unit", "value", "level", "output_format"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("agree", AgreeOptions)
@add_output_options
def agree(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations."""
    from calipers.comparisons.api import agree as measure  # noqa: PLC0415 (loads Polars)

    result = measure(list(files), **options)
    put(result)
    end(result, files, result.units)
