"""`calipers score` and `explain`.

The options of all commands that measure are declared in `scores/options.py`, and further ones that
concern files and metrics in `records/reading_options.py` and `metrics/declare/settings.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_flag, add_option
from calipers.cli.output import Put, add_output_options, end, show, show_progress


@click.command(cls=GroupedCommand, first=("by", "metrics", "map", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("score")
@add_option(
    "--to",
    help="Send the score to mlflow[:URI], wandb[:PROJECT], otel[:ENDPOINT] or"
    " every_eval_ever:FOLDER too.",
    group="output",
    multiple=True,
    metavar="NAME[:WHERE]",
)
@add_flag("--all", "Show every metric in tables, not only those that matter most.", "output")
@partial(add_output_options, further=("csv-wide",))
def score(
    files: tuple[str, ...],
    to: tuple[str, ...],
    put: Put,
    options: dict[str, Any],
    **shown: bool,
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin.

    Logs of Inspect, lm-eval, promptfoo, MLflow, Langfuse, OpenTelemetry and many more tools
    (docs/logs.md) are recognized by their content.
    """
    from calipers.reports.destinations import read_destination, send_all  # noqa: PLC0415
    from calipers.scores.score import score as measure  # noqa: PLC0415 (loads Polars)

    destinations = [read_destination(address) for address in to]  # before there is any work
    with show_progress() as progress:
        result = measure(list(files), progress=progress, **options)
    put(replace(result, whole=shown["all"]))
    for line in send_all(result, destinations if result.records else ()):
        click.echo(line, err=True)
    end(result, files, result.records)


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
