"""What the commands share: plug-ins, messages on stderr, progress, output, and verdicts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from calipers.cli.options import F, add_option, add_output, add_path
from calipers.cli.workflow_commands import is_obeyed, keep_json, say_commands
from calipers.support.errors import UsageError, make_write_error

if TYPE_CHECKING:
    from calipers.gates.result import GateResult

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
    from calipers.reports.number_format import strip_controls  # noqa: PLC0415

    for notice in notices:
        click.echo(f"{click.style('note', fg='yellow')}: {strip_controls(notice)}", err=True)


def say_empty(files: Sequence[str], what: str = "records") -> None:
    """Say on stderr that there was nothing to measure."""
    click.echo(f"{click.style('empty', fg='yellow')}: no {what} in {', '.join(files)}", err=True)


def end(result: Any, files: Sequence[str], content: object, what: str = "records") -> NoReturn:
    """Exit with the code of a result; where nothing was found in the files, say so on stderr."""
    if not content:
        say_empty(files, what)
    sys.exit(result.exit_code)


def show(result: Any) -> None:
    """Print a result, or the document of one, on the terminal."""
    from calipers.reports.dispatch import make_document  # noqa: PLC0415 (loads renderers)
    from calipers.reports.formats.terminal import open_stdout, show_document  # noqa: PLC0415

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
    elif output_format == "json" and hasattr(result, "write_json"):
        _write_json(result, output)
    elif output is not None:
        write(output, _as_text(result, output_format))
    elif output_format == "table":
        show(result)
    else:
        text = _as_text(result, output_format)
        click.echo(keep_json(text) if output_format == "json" else text, nl=False)


def _write_json(result: Any, output: Path | None) -> None:
    """Write a result that may be large piece by piece."""
    if output is None:
        result.write_json(lambda text: click.echo(keep_json(text), nl=False))
        click.echo()
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            result.write_json(file.write)
            file.write("\n")
    except OSError as error:
        raise make_write_error(output, error) from error


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
    from calipers.support.files import stage_file  # noqa: PLC0415

    try:
        with stage_file(output) as beside:
            result.to_polars().write_parquet(beside)
    except OSError as error:
        raise make_write_error(output, error) from error


_SUMMARY = "GITHUB_STEP_SUMMARY"


def add_verdict_options(command: F) -> F:
    """Add the options that write a verdict to files for build systems."""
    for name, text in (("--sarif", "SARIF for code scanning"), ("--junit", "JUnit XML")):
        help_text = f"Write the gate's verdict as {text} too."
        command = add_path(name, help=help_text, group="output")(command)
    return command


def write_verdict(
    result: GateResult, *, decided_by: Path, junit: Path | None, sarif: Path | None
) -> None:
    """Write the files asked for and, on GitHub Actions, the annotations and the step's summary.

    `decided_by` is the policy, or the suite that names it: failed checks are shown there.
    """
    if junit is not None:
        from calipers.reports.formats.junit_sarif import write_junit  # noqa: PLC0415

        write(junit, write_junit(result))
    if sarif is not None:
        from calipers.reports.formats.junit_sarif import write_sarif  # noqa: PLC0415

        write(sarif, write_sarif(result, decided_by))
    if is_obeyed():
        from calipers.reports.formats.junit_sarif import list_annotations  # noqa: PLC0415

        say_commands(list_annotations(result))
    if summary := os.environ.get(_SUMMARY):
        from calipers.reports.formats.junit_sarif import append_summary  # noqa: PLC0415

        try:
            append_summary(Path(summary), result.to_markdown())
        except OSError as error:  # the verdict stands without the summary
            say_notices([f"{_SUMMARY}: {summary}: {error.strerror}"])
