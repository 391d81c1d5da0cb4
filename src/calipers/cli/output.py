"""Output of a command: its destination and format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, cast

import click

from calipers.cli.options import F, add_option, add_output
from calipers.cli.shared import say_notices, show, write
from calipers.support.errors import UsageError, make_write_error

_PARQUET = "parquet"
_FORMATS = ("table", "json", "csv", "markdown", "latex", _PARQUET)


Put = Callable[[Any], None]


def add_output_options(command: F, further: tuple[str, ...] = ()) -> F:
    """Add the options of every command whose result has several formats, and further formats.

    Its function gets them as `put`, which shows a result accordingly.
    """

    @wraps(command)
    def call(output_format: str, output: Path | None, **values: Any) -> Any:
        put = partial(_put_result, output_format=output_format, output=output)
        return command(put=put, **values)

    text = "Write the result to FILE instead of standard output."
    to_file = add_output(text, group="output")
    return add_format_option(*_FORMATS, *further)(to_file(cast("F", call)))


def add_format_option(*formats: str) -> Callable[[F], F]:
    """Add the choice among some formats of a result, of which a table is the default."""
    return add_option(
        "--format",
        "output_format",
        help="Format of the result.",
        group="output",
        type=click.Choice(formats),
        default="table",
    )


def _put_result(result: Any, output_format: str, output: Path | None) -> None:
    """Say the notices, and write the result or print it; only a printed table fits the terminal."""
    say_notices(getattr(result, "notices", ()))
    if output_format == _PARQUET:
        _write_parquet(result, output)
    elif output is not None:
        write(output, _as_text(result, output_format))
    elif output_format == "table":
        show(result)
    else:
        click.echo(_as_text(result, output_format), nl=False)


def _as_text(result: Any, output_format: str) -> str:
    if output_format == "table":
        return str(result)
    text: str = getattr(result, f"to_{output_format.replace('-', '_')}")()
    return f"{text}\n" if output_format == "json" else text


def _write_parquet(result: Any, output: Path | None) -> None:
    if output is None:
        raise UsageError(
            "--format parquet: a Parquet file cannot be printed", fix="name a file: -o FILE.parquet"
        )
    from calipers.support.whole_files import stage_file  # noqa: PLC0415

    try:
        with stage_file(output) as beside:
            result.to_polars().write_parquet(beside)
    except OSError as error:
        raise make_write_error(output, error) from error
