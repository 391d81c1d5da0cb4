"""`calipers compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calipers.cli.choices import choice_options, policy_option
from calipers.cli.shared import (
    FORMATS,
    PROFILES,
    console,
    evidence_options,
    record_options,
    say_notices,
    write,
)

if TYPE_CHECKING:
    from calipers.comparisons import Compared


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="BASE CANDIDATE…")
@record_options
@choice_options
@policy_option
@evidence_options
@click.option("--profile", type=click.Choice(PROFILES), help="Only the metrics of one family.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only NAME (repeatable).")
@click.option(
    "--between", metavar="FIELD", help="Compare the parts of one file that FIELD tells apart."
)
@click.option("--unpaired", is_flag=True, help="As independent samples: rank tests, Cliff's delta.")
@click.option(
    "--attribute", is_flag=True, help="Split the change: model, scorer, tasks added and removed."
)
@click.option(
    "--base-normalize",
    type=click.Choice(("numeric", "text")),
    help="With --attribute: how the base's answers were compared when it was scored.",
)
@click.option(
    "--flips", type=click.Path(path_type=Path), help="Write the tasks that flipped to a .jsonl."
)
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="table", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def compare(
    files: tuple[str, ...], output_format: str, output: Path | None, **options: Any
) -> None:
    """Compare runs task by task: each metric's difference with its interval and p-value.

    Tasks are paired by id, several rows of one averaged first. More than two files: all pairs.
    """
    from calipers.api import compare as compare_runs  # noqa: PLC0415 (loads Polars)

    result = compare_runs(*files, **options)
    say_notices(result.notices)
    if output is not None:
        write(output, _as_text(result, output_format))
    elif output_format == "table":
        from calipers.reporting.comparison import comparison_text  # noqa: PLC0415

        comparison_text(result, console())
    else:
        click.echo(_as_text(result, output_format), nl=False)


def _as_text(result: Compared, output_format: str) -> str:
    from calipers.reporting.comparison import (  # noqa: PLC0415
        comparison_csv,
        comparison_markdown,
    )

    if output_format == "json":
        return result.to_json() + "\n"
    if output_format == "csv":
        return comparison_csv(result)
    return comparison_markdown(result) if output_format == "markdown" else str(result)
