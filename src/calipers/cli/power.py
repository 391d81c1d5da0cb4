"""`calipers power`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from calipers.cli.choices import choice_options, policy_option
from calipers.cli.output import output_options, put
from calipers.cli.shared import record_options, say_empty, say_notices
from calipers.support.errors import UsageError


def _numbers(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    words = [word.strip() for text in texts for word in text.split(",")]
    try:
        return tuple(sorted({int(word) for word in words}))
    except ValueError:
        raise UsageError(
            f"--runs {','.join(texts)}: not whole numbers", fix="for example --runs 1,2,4"
        ) from None


@click.command()
@click.argument("base")
@click.argument("candidate", required=False)
@click.option(
    "--delta",
    type=float,
    metavar="D",
    help="The difference to detect; by default 0.05, or 5 % of a value outside [0, 1].",
)
@click.option(
    "--width",
    type=float,
    metavar="W",
    help="Also plan for an interval of the value that is W wide, from low to high.",
)
@click.option(
    "--power",
    default=0.8,
    show_default=True,
    metavar="P",
    help="Probability of detecting the difference.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    metavar="C",
    help="Confidence level of the test that is planned.",
)
@click.option(
    "--correlation",
    default=0.5,
    show_default=True,
    metavar="R",
    help="Correlation of the two systems' task scores, without CANDIDATE.",
)
@click.option(
    "--runs",
    multiple=True,
    default=("1,2,4,8,16",),
    show_default=True,
    callback=_numbers,
    metavar="K,…",
    help="Runs of each task to plan for (repeatable).",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compute only the metric NAME (repeatable).",
)
@record_options
@choice_options
@policy_option
@output_options
def power(
    base: str,
    candidate: str | None,
    output_format: str,
    output: Path | None,
    **options: Any,
) -> None:
    """How many tasks and runs it takes to see a difference, and what the run BASE could see.

    With CANDIDATE, a run of another system on the same tasks, the variance of their difference is
    measured; without it, it is assumed from BASE.
    """
    from calipers.comparisons.api import power as analyse  # noqa: PLC0415 (loads Polars)

    result = analyse(base, candidate, **options)
    say_notices(result.notices)
    put(result, output_format, output)
    if not result.groups:
        say_empty(tuple(name for name in (base, candidate) if name is not None))
    sys.exit(result.exit_code)
