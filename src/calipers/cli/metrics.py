"""`calipers metrics`."""

from __future__ import annotations

import click

from calipers.cli.options import add_option
from calipers.cli.output import add_format_option, show


@click.command()
@click.argument("name", required=False)
@add_option("--profile", help="List only the metrics of one family.", metavar="NAME")
@add_option(
    "--spec",
    help="List the rules of one of the four specifications, and where they are implemented.",
    type=click.Choice(("Z", "T", "S", "P"), case_sensitive=False),
)
@add_format_option("table", "json", "markdown")
def metrics(name: str | None, profile: str | None, spec: str | None, output_format: str) -> None:
    """List every metric, or show NAME in full."""
    if spec is not None:
        _list_rules(spec, output_format)
        return
    from calipers.metrics import metric_named, metrics_of  # noqa: PLC0415 (loads Polars)
    from calipers.reports.tables import metric_catalogue  # noqa: PLC0415

    chosen = metrics_of(profile) if name is None else [metric_named(name)]
    if output_format == "table":
        show(metric_catalogue.make_catalogue_document(chosen, whole=name is not None))
    else:
        is_json = output_format == "json"
        written = metric_catalogue.dump_catalogue if is_json else metric_catalogue.write_catalogue
        click.echo(written(chosen), nl=False)


def _list_rules(spec: str, output_format: str) -> None:
    """Print the rules of a document."""
    from calipers.metrics.specifications import list_rules  # noqa: PLC0415 (loads Polars)
    from calipers.reports.tables import metric_catalogue  # noqa: PLC0415

    rules = list_rules(spec)
    if output_format == "json":
        click.echo(metric_catalogue.dump_rules(rules), nl=False)
    elif output_format == "markdown":
        click.echo(metric_catalogue.write_rules(rules))
    else:
        show(metric_catalogue.make_rules_document(rules))
