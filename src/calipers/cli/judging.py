"""`calipers judge FILES…`: have records judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.shared import map_option

if TYPE_CHECKING:
    from calipers.runner.judging import JudgedFiles


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@click.option(
    "--rubric",
    required=True,
    metavar="R",
    help="technical_accuracy, constructiveness, planning_rationality, or a rubric file.",
)
@click.option("--model", required=True, metavar="M", help="The judge, as in openai:gpt-4o-mini.")
@click.option("--name", metavar="NAME", help="Of the judge in the records; else the model's.")
@click.option("--base-url", metavar="URL", help="Of a server that speaks as OpenAI's does.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The judged records, JSON lines; run again to finish what is missing.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=100),
    metavar="N",
    help="Cut long texts at a paragraph within N characters; else the rubric says where.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep judgements, and use those that are kept.",
)
@click.option("--concurrency", default=32, show_default=True, type=click.IntRange(min=1))
@click.option("--retries", default=5, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--timeout", default=120.0, show_default=True, type=click.FloatRange(min=0, min_open=True)
)
@map_option
def files(files: tuple[str, ...], output: Path, **options: Any) -> None:
    """Judge the records in FILES by a rubric, in one call each, and write them with judgements.

    Exit codes: 0 all are judged, 2 a mistake, 3 judgements are missing: run again to go on.
    """
    from calipers.api import judge_records  # noqa: PLC0415 (loads Polars)
    from calipers.reporting.run import watched  # noqa: PLC0415

    result = judge_records(list(files), output, watch=watched, **options)
    _say(result)
    sys.exit(result.exit_code)


def _say(result: JudgedFiles) -> None:
    from calipers.reporting.figures import printable  # noqa: PLC0415
    from calipers.reporting.run import dollars  # noqa: PLC0415

    said = [f"{result.judged:,} of {result.records:,} records judged"]
    counts = {
        "failed": result.failed,
        "not judged (nothing to read, or a failed call)": result.not_judged,
        "flagged": result.flagged,
        "cut": result.cut,
    }
    said += [f"{count:,} {what}" for what, count in counts.items() if count]
    said.append(f"{result.tokens:,.0f} tokens")
    if result.cost_usd is not None:
        said.append(dollars(result.cost_usd))
    click.echo(f"{printable(result.output)}: {', '.join(said)}", err=True)
    for count, message in result.failures:
        click.echo(f"  {count:,} × {printable(message)}", err=True)
    if result.exit_code:
        why = " (it was interrupted)" if result.interrupted else ""
        click.echo(
            f"{click.style('incomplete', fg='yellow')}{why}: what is done is kept; "
            "go on with the same command",
            err=True,
        )
