"""`calipers power`."""

from __future__ import annotations

from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import Put, add_output_options, end
from calipers.comparisons.comparison_options import PowerOptions


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
