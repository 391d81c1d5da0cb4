"""`calipers compare`, `rank`, `agree` and `power`.

Their options are declared in `comparisons/comparison_options.py`.
"""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options, end
from calipers.comparisons.comparison_options import (
    AgreeOptions,
    CompareOptions,
    PowerOptions,
    RankOptions,
)


@click.command(
    cls=GroupedCommand, first=("metrics", "margin", "between", "base", "output_format", "output")
)
@click.argument("files", nargs=-1, required=True, metavar="BASE CANDIDATE…")
@add_declared_options("compare", CompareOptions)
@add_output_options
def compare(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Compare runs task by task: each metric's difference with its interval and p-value.

    Tasks are paired by id, several rows of one averaged first. More than two files: all pairs.
    """
    from calipers.comparisons.api import compare as compare_runs  # noqa: PLC0415 (loads Polars)

    put(compare_runs(*files, **options))


@click.command(cls=GroupedCommand, first=("by", "metrics", "tasks", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("rank", RankOptions)
@add_output_options
def rank(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Rank systems: value, rank and significance group of each, adjusted for all comparisons.

    Systems are told apart by --by; without it by model, tier and variant, whichever have several
    values; otherwise, and with --by file, each file is one. They are compared on the tasks that all
    of them have. Files of pairwise judgments (model_a, model_b, winner) are ranked by Bradley-Terry
    strengths.
    """
    from calipers.comparisons.api import rank as rank_systems  # noqa: PLC0415 (loads Polars)

    put(rank_systems(*files, **options))


@click.command(cls=GroupedCommand, first=("raters", "unit", "value", "level", "output_format"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_declared_options("agree", AgreeOptions)
@add_output_options
def agree(files: tuple[str, ...], put: Put, options: dict[str, Any]) -> None:
    """Measure how far raters agree: percent, kappas, Krippendorff's alphas, correlations."""
    from calipers.comparisons.api import agree as measure  # noqa: PLC0415 (loads Polars)

    result = measure(list(files), **options)
    put(result)
    end(result, files, result.units)


@click.command(cls=GroupedCommand, first=("delta", "runs", "metrics", "output_format", "output"))
@click.argument("base")
@click.argument("candidate", required=False)
@add_declared_options("power", PowerOptions)
@add_output_options
def power(base: str, candidate: str | None, put: Put, options: dict[str, Any]) -> None:
    """Compute how many tasks and runs detect a difference, and what the run BASE could detect.

    With CANDIDATE, a run of another system on the same tasks, the variance of their difference is
    measured; without it, it is assumed from BASE.
    """
    from calipers.comparisons.api import power as analyse  # noqa: PLC0415 (loads Polars)

    result = analyse(base, candidate, **options)
    put(result)
    end(result, [name for name in (base, candidate) if name is not None], result.groups)
