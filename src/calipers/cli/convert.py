"""`calipers convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_output
from calipers.cli.output import say_empty, say_notices, show_progress
from calipers.scores.convert_options import ConvertOptions


@click.command(cls=GroupedCommand, first=("output", "tasks", "map", "source", "join", "on_bad"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_output(
    "Where to write the records: a .parquet or .jsonl file, or a new table delta:FOLDER or "
    "iceberg:NAME.",
    required=True,
)
@add_declared_options("convert", ConvertOptions)
def convert(files: tuple[str, ...], output: Path, options: dict[str, Any]) -> None:
    """Write FILES, logs of any tool that `score` reads, as records to one file.

    With --tasks, write what the records that fail, are flaky or are flagged were asked: the data of
    a suite.
    """
    from calipers.scores.convert import convert as write_records  # noqa: PLC0415 (loads Polars)

    with show_progress() as show:
        written = write_records(list(files), output, progress=show, **options)
    say_notices(written.notices)
    left_out = f", {written.skipped:,} bad rows left out" if written.skipped else ""
    fields = len(written.columns)
    kind = "records" if options.get("tasks") is None else "tasks"
    click.echo(f"{output}: {written.records:,} {kind}, {fields} fields{left_out}", err=True)
    if not written.records:
        say_empty(files)
        raise SystemExit(3)
