"""`calipers view`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import add_declared_options, add_flag, add_option, add_path
from calipers.support.errors import UsageError, require_extra

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
