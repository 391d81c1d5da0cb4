"""`calipers judge calibrate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.options import FILE, add_declared_options, add_output
from calipers.cli.output import add_format_option
from calipers.cli.shared import open_console, write


@click.command()
@click.argument("judged", metavar="JUDGED")
@click.argument("human", metavar="HUMAN")
@add_declared_options("calibrate")
@add_output(
    "Write the calibration file, which is bound to the judge's model and the rubric.",
    type=FILE,
)
@add_format_option("table", "json")
def calibrate(
    judged: str, human: str, output: Path | None, options: dict[str, Any], output_format: str
) -> None:
    """Compare the judges in JUDGED with what people say of the same records in HUMAN.

    HUMAN holds records with the same id (and model, tier, run, where it has them) and `passed`,
    `weighted_score` or `scores`, or `judgments` of several people.
    """
    from calipers.judges.api import calibrate_judges  # noqa: PLC0415 (loads Polars)

    result = calibrate_judges(judged, human, **options)
    if output is not None:
        write(output, result.to_json() + "\n")
    if output_format == "json":
        click.echo(result.to_json())
    else:
        from calipers.reports.documents import show  # noqa: PLC0415 (loads renderers)

        show(result, open_console())
    if result.exit_code:
        click.echo(
            f"{click.style('empty', fg='yellow')}: no record of {judged} is in {human}", err=True
        )
    sys.exit(result.exit_code)
