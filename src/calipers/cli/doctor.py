"""`calipers doctor`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options, end
from calipers.comparisons.comparison_options import DoctorOptions


@click.command(cls=GroupedCommand, first=("map", "strict", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("doctor", DoctorOptions)
@add_output_options
def doctor(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Say what FILES hold and support, what looks wrong in them, and what to run next.

    Any file that `score` reads, a result folder, or a log of another tool. Exit codes: 0 also with
    findings (1 with --strict), 2 a file cannot be read, 3 there is no record at all.
    """
    from calipers.doctor.examine import doctor as examine  # noqa: PLC0415 (loads Polars)

    result = examine(list(files), **options)
    put(result)
    end(result, files, result.records or any(file.unreadable for file in result.files))
