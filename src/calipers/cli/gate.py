"""`calipers gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calipers.cli.options import GroupedCommand, add_declared_options
from calipers.cli.output import (
    Put,
    add_output_options,
    add_verdict_options,
    end,
    show_progress,
    write_verdict,
)
from calipers.gates.gate_options import GateOptions


@click.command(cls=GroupedCommand, first=("policy", "against", "by", "output_format", "output"))
@click.argument("files", nargs=-1, required=True, metavar="FILES…")
@add_verdict_options
@add_declared_options("gate", GateOptions)
@add_output_options
def gate(
    files: tuple[str, ...],
    junit: Path | None,
    sarif: Path | None,
    put: Put,
    options: dict[str, Any],
) -> None:
    """Decide whether FILES pass a policy, with a reason for every failed check.

    Exit codes: 0 pass, 1 failed or inconclusive, 2 a mistake in the policy or the data, 3 the run
    is incomplete or empty. On GitHub Actions the verdict is in the step's summary too.
    """
    from calipers.gates.decide import gate as decide  # noqa: PLC0415 (loads Polars)

    with show_progress() as show:
        result = decide(list(files), progress=show, **options)
    write_verdict(result, decided_by=Path(options["policy"]), junit=junit, sarif=sarif)
    put(result)
    end(result, files, result.records)
