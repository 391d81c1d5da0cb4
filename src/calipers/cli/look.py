"""`calipers doctor`, `report`, `view` and `metrics`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.options import (
    GroupedCommand,
    add_declared_options,
    add_flag,
    add_option,
    add_output,
    add_path,
)
from calipers.cli.output import (
    Put,
    add_format_option,
    add_output_options,
    end,
    say_notices,
    show,
    show_progress,
    write,
)
from calipers.comparisons.comparison_options import DoctorOptions
from calipers.runs.run_options import ReportOptions
from calipers.support.errors import UsageError, require_extra


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


_HTML, _MARKDOWN = "html", "markdown"
_NAMES = {_HTML: "report.html", _MARKDOWN: "report.md"}


@click.command(cls=GroupedCommand, first=("output", "output_format", "policy", "by", "samples"))
@click.argument("files", nargs=-1, required=True, metavar="FOLDER|FILES…")
@add_output("File to write; by default report.html in the result folder, or here.", group="output")
@add_option(
    "--format",
    "output_format",
    help="HTML page or Markdown; by default by the ending of FILE.",
    group="output",
    type=click.Choice((_HTML, _MARKDOWN)),
)
@add_declared_options("report", ReportOptions)
def report(
    files: tuple[str, ...], output: Path | None, output_format: str | None, options: dict[str, Any]
) -> None:
    """Show FILES, or a result FOLDER of `calipers run`, as a page to read in two minutes.

    One HTML file that needs no network: the verdict, every metric with its interval, figures, what
    failed, and the samples worth reading. With `-o -` it goes to standard output.
    """
    from calipers.records.result_folder import find_folder  # noqa: PLC0415

    is_markdown = output is not None and output.suffix.lower() in (".md", ".markdown")
    bundle = options.pop("bundle", None)
    kind = output_format or (_MARKDOWN if is_markdown else _HTML)
    place = output or (find_folder(list(files)) or Path()) / _NAMES[kind]
    if kind == _HTML or bundle is not None:
        from calipers.reports.data.report_data import require_report  # noqa: PLC0415

        require_report("calipers report")
    _check_place(place)
    from calipers.records.sinks import check_folder  # noqa: PLC0415 (loads Polars)
    from calipers.reports.data.report_builder import report as make  # noqa: PLC0415 (loads Polars)

    if bundle is not None:
        check_folder(bundle, "--bundle")
    with show_progress() as progress:
        made = make(list(files), progress=progress, **options)
    say_notices(made.notices)
    if not made.score.records:
        end(made, files, content=0)
    text = made.to_markdown() if kind == _MARKDOWN else made.to_html()
    if str(place) == "-":
        click.echo(text, nl=False)
    else:
        write(place, text)
        click.echo(f"{place}: {made.score.records:,} records", err=True)
    if bundle is not None:
        written = made.save_bundle(bundle)
        click.echo(f"{bundle}: {len(written)} files", err=True)
    sys.exit(made.exit_code)


def _check_place(place: Path) -> None:
    """Refuse a place that cannot be written to before any work is done."""
    if place.is_dir():
        named = place / _NAMES[_HTML]
        raise UsageError(f"{place}: a folder, not a file", fix=f"for example -o {named}")
    if not place.parent.is_dir():
        raise UsageError(
            f"{place}: the folder {place.parent} does not exist", fix="create it first"
        )


DEFAULT_PORT = 7575
_NEEDED = ("fastapi", "uvicorn", "jinja2", "vl_convert")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".", metavar="[FOLDER]")
@add_option(
    "--port",
    help="Port to listen on; 0 picks a free one.",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
)
@add_option(
    "--host",
    help="Address to listen on; beyond this machine, the printed URL holds a token.",
    default="127.0.0.1",
)
@add_path("--checks", help="Apply the checks in FILE, YAML or JSON, to the replies.")
@add_path("--rate", help="Let people rate the answers, and append their ratings to FILE.")
@add_option("--rater", help="Name of the one person who rates; without it the page asks.")
@add_declared_options("view")
@add_flag("--no-open", "Print the URL, and open no browser.")
def view(
    folder: Path,
    port: int,
    host: str,
    checks: Path | None,
    rate: Path | None,
    rater: str | None,
    options: dict[str, Any],
    *,
    no_open: bool,
) -> None:
    """Show the results in FOLDER, or any file that `score` reads, in a browser.

    The app is local and read-only, but for the file of --rate. Ctrl-C ends it.
    """
    if not folder.exists():
        raise UsageError(f"{folder}: no such folder", fix="name a folder with results, or a file")
    if rater is not None and rate is None:
        raise UsageError("--rater is the name of who rates", fix="name the file: --rate FILE")
    require_extra("view: the dashboard is not installed", extra="view", modules=_NEEDED)
    from calipers.dashboard.server import serve  # noqa: PLC0415
    from calipers.metrics.checks.checks import read_checks  # noqa: PLC0415
    from calipers.records.reading_options import READING_KEYWORDS, ReadingChoices  # noqa: PLC0415
    from calipers.records.sources import find_forced, is_readable  # noqa: PLC0415 (loads Polars)

    reading = ReadingChoices(**{name: options.get(name) for name in READING_KEYWORDS})
    with reading.apply():
        forced = find_forced()
    if forced is None and folder.is_file() and not is_readable(folder):
        raise UsageError(
            f"{folder}: not a file of records", fix="name a folder, or a file that score reads"
        )

    def announce(address: str) -> None:
        click.echo(address)
        click.echo(f"looking at {folder}; Ctrl-C ends it", err=True)
        if not no_open:
            import threading  # noqa: PLC0415 (only where a browser is opened)
            import webbrowser  # noqa: PLC0415

            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(
        folder,
        host=host,
        port=port,
        ready=announce,
        field_map=options.get("map"),
        checks=None if checks is None else read_checks(checks),
        reading=reading,
        rate=rate,
        rater=rater,
    )
    click.echo("ended", err=True)


@click.command()
@click.argument("name", required=False)
@add_option("--profile", help="List only the metrics of one family.", metavar="NAME")
@add_option(
    "--spec",
    help="List the rules of one of the four specifications, and where they are implemented.",
    type=click.Choice(("Z", "T", "S", "P"), case_sensitive=False),
)
@add_format_option("table", "json", "markdown")
def metrics(name: str | None, profile: str | None, spec: str | None, output_format: str) -> None:
    """List every metric, or show NAME in full."""
    if spec is not None:
        _list_rules(spec, output_format)
        return
    from calipers.metrics import metric_named, metrics_of  # noqa: PLC0415 (loads Polars)
    from calipers.reports.tables import metric_catalogue  # noqa: PLC0415

    chosen = metrics_of(profile) if name is None else [metric_named(name)]
    if output_format == "table":
        show(metric_catalogue.make_catalogue_document(chosen, whole=name is not None))
    else:
        is_json = output_format == "json"
        written = metric_catalogue.dump_catalogue if is_json else metric_catalogue.write_catalogue
        click.echo(written(chosen), nl=False)


def _list_rules(spec: str, output_format: str) -> None:
    """Print the rules of a document."""
    from calipers.metrics.specifications import list_rules  # noqa: PLC0415 (loads Polars)
    from calipers.reports.tables import metric_catalogue  # noqa: PLC0415

    rules = list_rules(spec)
    if output_format == "json":
        click.echo(metric_catalogue.dump_rules(rules), nl=False)
    elif output_format == "markdown":
        click.echo(metric_catalogue.write_rules(rules))
    else:
        show(metric_catalogue.make_rules_document(rules))
