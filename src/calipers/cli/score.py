"""`calipers score`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.shared import (
    FORMATS,
    PROFILES,
    console,
    evidence_options,
    progress,
    reading_options,
    say_empty,
    say_notices,
    write,
)

if TYPE_CHECKING:
    from calipers.results import Score


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@reading_options
@evidence_options
@click.option("--profile", type=click.Choice(PROFILES), help="Only the metrics of one family.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only NAME (repeatable).")
@click.option(
    "--baseline", default="T0", show_default=True, metavar="TIER", help="The tier others are above."
)
@click.option("--pass-weight", default=0.5, show_default=True, help="Of passing in the composite.")
@click.option("--impl-weight", default=0.5, show_default=True, help="Of impl_rate in it.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Prices of models, YAML or JSON: {NAME: {input: 3, output: 15}}, USD per million tokens.",
)
@click.option(
    "--semantic-model",
    default="distilbert-base-uncased",
    show_default=True,
    metavar="NAME|FOLDER",
    help="The model that compares meanings; lexical is a stand-in that matches words.",
)
@click.option(
    "--semantic-cache",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep the model's scores there, so that it is asked only once for a pair of texts.",
)
@click.option(
    "--missing",
    type=click.Choice(("zero", "renormalize")),
    default="zero",
    show_default=True,
    help="Of a composite a null part counts 0, or gives its weight to the other parts.",
)
@click.option(
    "--success-threshold",
    default="0.8",
    show_default=True,
    metavar="NUMBER|FILE:Q",
    help="Output similarity from which a task succeeds, or the Q-quantile of the pairs in FILE.",
)
@click.option(
    "--engine",
    type=click.Choice(("polars", "spark")),
    default="polars",
    show_default=True,
    help="This machine, or a Spark cluster: the same numbers.",
)
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="table", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option(
    "--per-sample",
    type=click.Path(path_type=Path),
    help="Write a row per record to a .parquet or .jsonl file.",
)
@click.option(
    "--bad-rows",
    type=click.Path(path_type=Path),
    help="With --on-bad skip: write the bad rows and their reasons to a .jsonl file.",
)
@click.option("--hash", "hash_inputs", is_flag=True, help="Hash inputs larger than 64 MiB too.")
def score(
    files: tuple[str, ...],
    output_format: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin."""
    from calipers.api import score as measure  # noqa: PLC0415 (loads Polars)

    with progress() as show:
        result = measure(list(files), progress=show, **options)
    say_notices(result.notices)
    if output is None:
        _print_score(result, output_format)
    else:
        write(output, _score_as_text(result, output_format))
    if not result.records:
        say_empty(files)
    sys.exit(result.exit_code)


def _print_score(result: Score, output_format: str) -> None:
    if output_format == "table":
        from calipers.reporting.terminal import score_text  # noqa: PLC0415

        score_text(result, console())
    else:
        click.echo(_score_as_text(result, output_format), nl=False)


def _score_as_text(result: Score, output_format: str) -> str:
    if output_format == "json":
        return result.to_json() + "\n"
    if output_format == "table":
        return str(result)
    from calipers.reporting.frames import score_csv, score_markdown  # noqa: PLC0415

    return score_csv(result) if output_format == "csv" else score_markdown(result)
