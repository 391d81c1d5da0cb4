"""`calipers judge calibrate`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from calipers.cli.shared import limit_options, open_console, write


@click.command()
@click.argument("judged", metavar="JUDGED")
@click.argument("human", metavar="HUMAN")
@limit_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the calibration file, which is bound to the judge's model and the rubric.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    metavar="C",
    help="Confidence level of the intervals.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Format of the result.",
)
def calibrate(
    judged: str, human: str, output: Path | None, confidence: float, output_format: str
) -> None:
    """Compare the judges in JUDGED with what people say of the same records in HUMAN.

    HUMAN holds records with the same id (and model, tier, run, where it has them) and `passed`,
    `weighted_score` or `scores`, or `judgments` of several people.
    """
    from calipers.judges.api import calibrate_judges  # noqa: PLC0415 (loads Polars)

    result = calibrate_judges(judged, human, confidence=confidence)
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
