"""A verdict for build systems: JUnit XML, SARIF, GitHub's summary and annotations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calipers.cli.options import F, add_path
from calipers.cli.shared import say_notices, write

if TYPE_CHECKING:
    from calipers.gates.result import GateResult

_SUMMARY = "GITHUB_STEP_SUMMARY"


def add_verdict_options(command: F) -> F:
    """Add the options that write a verdict to files for build systems."""
    for name, text in (("--sarif", "SARIF for code scanning"), ("--junit", "JUnit XML")):
        help_text = f"Write the gate's verdict as {text} too."
        command = add_path(name, help=help_text, group="output")(command)
    return command


def write_verdict(
    result: GateResult, *, decided_by: Path, junit: Path | None, sarif: Path | None
) -> None:
    """Write the files asked for and, on GitHub Actions, the annotations and the step's summary.

    `decided_by` is the policy, or the suite that names it: failed checks are shown there.
    """
    if junit is not None:
        from calipers.reports.build_systems import write_junit  # noqa: PLC0415

        write(junit, write_junit(result))
    if sarif is not None:
        from calipers.reports.build_systems import write_sarif  # noqa: PLC0415

        write(sarif, write_sarif(result, decided_by))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from calipers.reports.build_systems import list_annotations  # noqa: PLC0415

        for line in list_annotations(result):
            click.echo(line, err=True)
    if summary := os.environ.get(_SUMMARY):
        from calipers.reports.build_systems import append_summary  # noqa: PLC0415

        try:
            append_summary(Path(summary), result.to_markdown())
        except OSError as error:  # the verdict stands without the summary
            say_notices([f"{_SUMMARY}: {summary}: {error.strerror}"])
