"""What a build system reads of a verdict: JUnit XML, and the summary of a GitHub step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from calipers.cli.shared import say_notices, write

if TYPE_CHECKING:
    from calipers.gates.result import GateResult

_SUMMARY = "GITHUB_STEP_SUMMARY"


def write_verdict(result: GateResult, junit: Path | None) -> None:
    """Write JUnit XML where asked for, and the summary of the step where GitHub wants one."""
    if junit is not None:
        from calipers.reports.junit import write_junit  # noqa: PLC0415

        write(junit, write_junit(result))
    if summary := os.environ.get(_SUMMARY):
        from calipers.reports.step_summary import append_summary  # noqa: PLC0415

        try:
            append_summary(Path(summary), result.to_markdown())
        except OSError as error:  # the verdict counts, not the page
            say_notices([f"{_SUMMARY}: {summary}: {error.strerror}"])
