"""The command line: parse, call the API, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from calipers.errors import EXIT_ERROR, EXIT_INCOMPLETE, CalipersError, UsageError
from calipers.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from calipers.results import Score

F = TypeVar("F", bound=Callable[..., Any])

PROFILES = ("reasoning", "tiers", "scenarios", "agents")
FORMATS = ("table", "json", "csv", "markdown")
_SHOW_PROGRESS_AFTER = 1.0  # seconds


class KindGroup(click.Group):
    """Commands whose errors are a message and a way out, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; give its errors the contract's exit codes."""
        try:
            return super().invoke(ctx)
        except CalipersError as error:
            _say_error(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("stopped: nothing was written", err=True)
            ctx.exit(EXIT_INCOMPLETE)
        except BrokenPipeError:
            # The reader has seen enough, as in `calipers metrics | head`; what is left in the
            # buffer must not fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fix = "check the space left and the rights, here and in the folder for temporary files"
            _say_error(UsageError(f"{place}{error.strerror or error}", fix=fix))
            ctx.exit(EXIT_ERROR)


def _say_error(error: CalipersError) -> None:
    from calipers.reporting.figures import printable  # noqa: PLC0415

    click.echo(f"{click.style('error', fg='red', bold=True)}: {printable(error.message)}", err=True)
    click.echo(f"  {printable(error.fix)}", err=True)


@click.group(cls=KindGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="calipers")
def app() -> None:
    """Measure language models and agents: every metric from their records.

    Exit codes: 0 pass, 1 a gate failed, 2 usage, configuration or data error, 3 nothing to measure.
    """


def reading_options(command: F) -> F:
    """The options of every command that reads records."""
    for option in reversed(
        (
            click.option(
                "--by", multiple=True, metavar="FIELD", help="Group by FIELD (repeatable)."
            ),
            click.option(
                "--map",
                "renames",
                multiple=True,
                metavar="FIELD=NAME",
                help="Read the record's FIELD from the data's NAME (repeatable).",
            ),
            click.option(
                "--normalize",
                type=click.Choice(("numeric", "text")),
                default="numeric",
                show_default=True,
                help="Compare numbers by value (18.0 = 18), or answers as text.",
            ),
            click.option(
                "--bins", default=10, show_default=True, metavar="K", help="Bins of the ECE."
            ),
            click.option(
                "--tokenizer",
                default="whitespace",
                show_default=True,
                metavar="NAME",
                help="whitespace, a tokenizer.json file, or a name on the hub.",
            ),
            click.option(
                "--on-bad",
                type=click.Choice(("stop", "skip")),
                default="stop",
                show_default=True,
                help="Stop at the first bad row, or leave bad rows out and count them.",
            ),
        )
    ):
        command = option(command)
    return command


@app.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@reading_options
@click.option("--profile", type=click.Choice(PROFILES), help="Only the metrics of one family.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only NAME (repeatable).")
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
@click.option("--seed", default=0, show_default=True, help="Seed of everything that is resampled.")
def score(
    files: tuple[str, ...],
    output_format: str,
    output: Path | None,
    renames: tuple[str, ...],
    **options: Any,
) -> None:
    """Measure FILES: JSON lines (also .gz, .zst), CSV, Parquet, globs, folders, or - for stdin."""
    from calipers.api import score as measure  # noqa: PLC0415 (loads Polars)

    with _progress() as progress:
        result = measure(list(files), rename=_renames(renames), progress=progress, **options)
    for notice in result.notices:
        click.echo(f"{click.style('note', fg='yellow')}: {notice}", err=True)
    if output is None:
        _print_score(result, output_format)
    else:
        _write(output, _score_as_text(result, output_format))
    if not result.records:
        _say_empty(files)
    sys.exit(result.exit_code)


def _say_empty(files: tuple[str, ...]) -> None:
    click.echo(f"{click.style('empty', fg='yellow')}: no records in {', '.join(files)}", err=True)


@app.command()
@click.argument("metric")
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@reading_options
@click.option("--rows", default=5, show_default=True, help="How many of the rows that weigh most.")
def explain(metric: str, files: tuple[str, ...], renames: tuple[str, ...], **options: Any) -> None:
    """Show how METRIC came to its value, with the rows left out and those that weigh most."""
    from calipers.api import explain as explain_metric  # noqa: PLC0415 (loads Polars)
    from calipers.reporting.terminal import explanation_text  # noqa: PLC0415

    result = explain_metric(metric, list(files), rename=_renames(renames), **options)
    explanation_text(result, _console())
    if not result.groups:
        _say_empty(files)
    sys.exit(result.exit_code)


@app.command(name="metrics")
@click.argument("name", required=False)
@click.option("--profile", type=click.Choice(PROFILES), help="Only the metrics of one family.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("table", "json", "markdown")),
    default="table",
    show_default=True,
)
def list_metrics(name: str | None, profile: str | None, output_format: str) -> None:
    """List every metric, or show NAME in full."""
    from calipers.metrics import metric_named, metrics_of  # noqa: PLC0415 (loads Polars)
    from calipers.reporting.catalogue import as_json, as_markdown  # noqa: PLC0415
    from calipers.reporting.terminal import catalogue_text, metric_text  # noqa: PLC0415

    chosen = metrics_of(profile) if name is None else [metric_named(name)]
    if output_format != "table":
        click.echo(as_json(chosen) if output_format == "json" else as_markdown(chosen), nl=False)
    elif name is None:
        catalogue_text(metrics_of(profile), _console())
    else:
        metric_text(metric_named(name), _console())


def _renames(pairs: tuple[str, ...]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise UsageError(f"--map {pair}: not FIELD=NAME", fix="for example --map answer=output")
        renames[name.strip()] = theirs.strip()
    return renames


def _console() -> Console:
    from calipers.reporting.terminal import stdout_console  # noqa: PLC0415

    return stdout_console()


def _print_score(result: Score, output_format: str) -> None:
    if output_format == "table":
        from calipers.reporting.terminal import score_text  # noqa: PLC0415

        score_text(result, _console())
    else:
        click.echo(_score_as_text(result, output_format), nl=False)


def _score_as_text(result: Score, output_format: str) -> str:
    if output_format == "json":
        return result.to_json() + "\n"
    if output_format == "table":
        return str(result)
    from calipers.reporting.frames import score_csv, score_markdown  # noqa: PLC0415

    return score_csv(result) if output_format == "csv" else score_markdown(result)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", fix="check the folder and its rights"
        ) from error


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """A bar on stderr once the work has taken a second, if somebody is looking."""
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


def main() -> None:
    """Run the command line; what nobody foresaw is still a message, with a way to report it."""
    try:
        app(standalone_mode=True)
    except Exception as error:  # the last line of defence
        click.echo(f"error: {type(error).__name__}: {error}", err=True)
        click.echo("  this is a bug in calipers; CALIPERS_DEBUG=1 shows where", err=True)
        if os.environ.get("CALIPERS_DEBUG"):
            raise
        sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
