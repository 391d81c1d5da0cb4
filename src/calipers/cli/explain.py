"""`calipers explain`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import end, show


@click.command(cls=GroupedCommand, first=("rows", "by", "map", "metric_settings", "policy"))
@click.argument("metric")
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("explain")
def explain(metric: str, files: tuple[str, ...], options: dict[str, Any]) -> None:
    """Show how METRIC came to its value, with the rows left out and the most influential ones."""
    from calipers.scores.score import explain as explain_metric  # noqa: PLC0415 (loads Polars)

    result = explain_metric(metric, list(files), **options)
    show(result)
    end(result, files, result.groups)
