"""Where a command's result goes, and in which format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import click

from calipers.cli.options import F, own_option
from calipers.cli.shared import console, write

if TYPE_CHECKING:
    from rich.console import Console

_FORMATS = ("table", "json", "csv", "markdown")


class Result(Protocol):
    """What a command found."""

    def to_json(self) -> str:
        """The contract's JSON."""


R = TypeVar("R", bound=Result)


@dataclass(frozen=True, kw_only=True)
class Renderers(Generic[R]):
    """How one kind of result is written, beside its JSON."""

    table: Callable[[R, Console | None], str]  # printed too, where there is a console
    csv: Callable[[R], str]
    markdown: Callable[[R], str]


def output_options(command: F) -> F:
    """The options of every command whose result has several formats."""
    to_file = own_option(
        "output",
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the result to FILE instead of standard output.",
    )
    in_format = own_option(
        "output",
        "--format",
        "output_format",
        type=click.Choice(_FORMATS),
        default="table",
        show_default=True,
        help="Format of the result.",
    )
    return in_format(to_file(command))


def put(
    result: R, renderers: Callable[[], Renderers[R]], output_format: str, output: Path | None
) -> None:
    """Write the result to the file, or print it; only a printed table fits the terminal."""
    if output is not None:
        write(output, _as_text(result, renderers, output_format))
    elif output_format == "table":
        renderers().table(result, console())
    else:
        click.echo(_as_text(result, renderers, output_format), nl=False)


def _as_text(result: R, renderers: Callable[[], Renderers[R]], output_format: str) -> str:
    if output_format == "json":
        return result.to_json() + "\n"
    known = renderers()
    if output_format == "table":
        return known.table(result, None)
    return known.csv(result) if output_format == "csv" else known.markdown(result)
