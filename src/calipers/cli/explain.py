"""`calipers explain`."""

from __future__ import annotations

import sys
from typing import Any

import click

from calipers.cli.choices import choice_options, policy_option
from calipers.cli.shared import console, record_options, say_empty


@click.command()
@click.argument("metric")
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@record_options
@choice_options
@policy_option
@click.option(
    "--rows", default=5, show_default=True, help="How many of the most influential rows to show."
)
def explain(metric: str, files: tuple[str, ...], **options: Any) -> None:
    """Show how METRIC came to its value, with the rows left out and the most influential ones."""
    from calipers.reports.documents import show  # noqa: PLC0415
    from calipers.scores.api import explain as explain_metric  # noqa: PLC0415 (loads Polars)

    result = explain_metric(metric, list(files), **options)
    show(result, console())
    if not result.groups:
        say_empty(files)
    sys.exit(result.exit_code)
