"""`calipers init`."""

from __future__ import annotations

from pathlib import Path

import click

from calipers.cli.options import add_flag, add_option
from calipers.runs.starter import TEMPLATES


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@add_option(
    "--template",
    help="What to start from: "
    + "; ".join(f"{name}, {what}" for name, what in TEMPLATES.items())
    + ".",
    type=click.Choice(tuple(TEMPLATES)),
    default="agent",
)
@add_flag("--force", "Overwrite files that are there already.")
def init(folder: Path, *, template: str, force: bool) -> None:
    """Write a suite and a policy to start from into FOLDER, with example data and CI files.

    The suite runs as it is and needs no key: calipers run suite.yaml.
    """
    from calipers.reports.figures import strip_controls  # noqa: PLC0415
    from calipers.runs.starter import write_starter  # noqa: PLC0415

    for path in write_starter(folder, template, force=force):
        click.echo(f"wrote {strip_controls(path)}")
    click.echo(f"next: calipers run {strip_controls(folder / 'suite.yaml')}", err=True)
