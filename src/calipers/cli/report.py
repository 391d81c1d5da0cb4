"""`calipers report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_option, add_output
from calipers.cli.output import end, say_notices, show_progress, write
from calipers.runs.run_options import ReportOptions
from calipers.support.errors import UsageError

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
    with show_progress() as show:
        made = make(list(files), progress=show, **options)
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
