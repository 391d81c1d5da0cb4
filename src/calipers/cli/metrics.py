"""`calipers metrics`."""

from __future__ import annotations

import click

from calipers.cli.options import add_option
from calipers.cli.output import add_format_option
from calipers.cli.shared import show
from calipers.metrics import PROFILES


@click.command()
@click.argument("name", required=False)
@add_option("--profile", help="List only the metrics of one family.", type=click.Choice(PROFILES))
@add_format_option("table", "json", "markdown")
def metrics(name: str | None, profile: str | None, output_format: str) -> None:
    """List every metric, or show NAME in full."""
    from calipers.metrics import metric_named, metrics_of  # noqa: PLC0415 (loads Polars)
    from calipers.reports import catalogue  # noqa: PLC0415

    chosen = metrics_of(profile) if name is None else [metric_named(name)]
    if output_format == "table":
        show(catalogue.make_catalogue_document(chosen, whole=name is not None))
    else:
        is_json = output_format == "json"
        written = catalogue.dump_catalogue if is_json else catalogue.write_catalogue
        click.echo(written(chosen), nl=False)
