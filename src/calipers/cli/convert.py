"""`calipers convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import add_declared_options, add_output
from calipers.cli.shared import say_empty, say_notices, show_progress


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_output("Where to write the records: a .parquet or .jsonl file.", required=True)
@add_declared_options("convert")
def convert(files: tuple[str, ...], output: Path, options: dict[str, Any]) -> None:
    """Write FILES, logs of any tool that `score` reads, as records to one Parquet file."""
    from calipers.records.api import convert as write_records  # noqa: PLC0415 (loads Polars)

    with show_progress() as show:
        written = write_records(list(files), output, progress=show, **options)
    say_notices(written.notices)
    left_out = f", {written.skipped:,} bad rows left out" if written.skipped else ""
    fields = len(written.columns)
    click.echo(f"{output}: {written.records:,} records, {fields} fields{left_out}", err=True)
    if not written.records:
        say_empty(files)
        raise SystemExit(3)
