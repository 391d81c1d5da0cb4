"""What the commands share: plug-ins, messages on stderr, progress, and output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from calipers.support.errors import make_write_error

_SHOW_PROGRESS_AFTER = 1.0  # seconds


def _load_plugins(_: click.Context, __: click.Parameter, files: tuple[str, ...]) -> None:
    for file in files:
        from calipers.support.plugins import load_plugin  # noqa: PLC0415 (only where one is named)

        load_plugin(file)


def add_plugin_option(command: click.Command) -> None:
    """Add `--plugin` to a command that looks up metrics, log readers or other registered things."""
    option = click.Option(
        ("--plugin",),
        multiple=True,
        metavar="FILE.py",
        callback=_load_plugins,
        expose_value=False,
        is_eager=True,
        help="Run FILE.py first: metrics, log readers and whatever else it registers can be used.",
    )
    command.params.append(option)


def say_notices(notices: Sequence[str]) -> None:
    """Print notices on stderr; names from the data in them are untrusted."""
    from calipers.reports.figures import strip_controls  # noqa: PLC0415

    for notice in notices:
        click.echo(f"{click.style('note', fg='yellow')}: {strip_controls(notice)}", err=True)


def say_empty(files: Sequence[str], what: str = "records") -> None:
    """Say on stderr that there was nothing to measure."""
    click.echo(f"{click.style('empty', fg='yellow')}: no {what} in {', '.join(files)}", err=True)


def end(result: Any, files: Sequence[str], found: object, what: str = "records") -> NoReturn:
    """Exit with the code of a result; where nothing was found in the files, say so on stderr."""
    if not found:
        say_empty(files, what)
    sys.exit(result.exit_code)


def show(result: Any) -> None:
    """Print a result, or the document of one, on the terminal."""
    from calipers.reports.documents import make_document  # noqa: PLC0415 (loads renderers)
    from calipers.reports.terminal import open_stdout, show_document  # noqa: PLC0415

    show_document(result if isinstance(result, tuple) else make_document(result), open_stdout())


def write(path: Path, text: str) -> None:
    """Write the output to the file that -o names."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise make_write_error(path, error) from error


@contextmanager
def show_progress() -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr once the work has taken a second, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from time import monotonic  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    started = monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task("scoring", total=1.0)

    def show(share: float) -> None:
        if not bar.live.is_started and monotonic() - started > _SHOW_PROGRESS_AFTER:
            bar.start()
        bar.update(task, completed=share)

    try:
        yield show
    finally:
        bar.stop()
