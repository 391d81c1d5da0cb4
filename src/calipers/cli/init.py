"""`calipers init`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
def init(folder: Path, *, force: bool) -> None:
    """Write a suite and a policy to start from into FOLDER, with scenarios and an agent to try."""
    from calipers.reports.figures import printable  # noqa: PLC0415
    from calipers.runs.starter import write_starter  # noqa: PLC0415

    for path in write_starter(folder, force=force):
        click.echo(f"wrote {printable(path)}")
    click.echo(
        "next: calipers run suite.yaml, or calipers gate RECORDS --policy policy.yaml", err=True
    )
