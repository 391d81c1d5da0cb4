"""`calipers power`."""

from __future__ import annotations

import sys
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options, add_option
from calipers.cli.output import Put, add_output_options
from calipers.cli.shared import say_empty
from calipers.support.errors import UsageError


def _parse_numbers(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[int, ...]:
    words = [word.strip() for text in texts for word in text.split(",")]
    try:
        return tuple(sorted({int(word) for word in words}))
    except ValueError:
        raise UsageError(
            f"--runs {','.join(texts)}: not whole numbers", fix="for example --runs 1,2,4"
        ) from None


@click.command(cls=GroupedCommand, first=("delta", "runs", "metrics", "output_format", "output"))
@click.argument("base")
@click.argument("candidate", required=False)
@add_option(
    "--delta",
    help="The difference to detect; by default 0.05, or 5 % of a value outside [0, 1].",
    group="statistics",
    type=float,
    metavar="D",
)
@add_option(
    "--width",
    help="Also plan for an interval of the value that is W wide, from low to high.",
    group="statistics",
    type=float,
    metavar="W",
)
@add_option(
    "--power",
    help="Probability of detecting the difference.",
    group="statistics",
    default=0.8,
    metavar="P",
)
@add_option(
    "--confidence",
    help="Confidence level of the test that is planned.",
    group="statistics",
    default=0.95,
    metavar="C",
)
@add_option(
    "--correlation",
    help="Correlation of the two systems' task scores, without CANDIDATE.",
    group="statistics",
    default=0.5,
    metavar="R",
)
@add_option(
    "--runs",
    help="Runs of each task to plan for (repeatable).",
    group="statistics",
    multiple=True,
    default=("1,2,4,8,16",),
    callback=_parse_numbers,
    metavar="K,…",
)
@add_declared_options("power")
@add_output_options
def power(base: str, candidate: str | None, put: Put, options: dict[str, Any], **own: Any) -> None:
    """Compute how many tasks and runs detect a difference, and what the run BASE could detect.

    With CANDIDATE, a run of another system on the same tasks, the variance of their difference is
    measured; without it, it is assumed from BASE.
    """
    from calipers.comparisons.api import power as analyse  # noqa: PLC0415 (loads Polars)

    result = analyse(base, candidate, **own, **options)
    put(result)
    if not result.groups:
        say_empty(tuple(name for name in (base, candidate) if name is not None))
    sys.exit(result.exit_code)
