"""What a user can ask of `report`, and not of `score`.

A field that `option` makes is an option of the command line and a keyword in Python.
"""

from pathlib import Path
from typing import Any

from calipers.support.options import option
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What a user can ask of a report."""

    policy: Any = option(
        None,
        "Decide by this policy; without it, the result folder's verdict is shown.",
        group="input",
        metavar="FILE",
        python="PolicyLike | None",
    )
    title: str | None = option(
        None,
        "Title of the report; by default the name of the suite, or systems and tasks.",
        group="output",
        metavar="TEXT",
    )
    bundle: Path | None = option(
        None,
        "Write tables (LaTeX, CSV), figures (SVG, PDF, PNG) and a methods paragraph into DIR.",
        group="output",
        metavar="DIR",
    )
    samples: int = option(
        60, "Number of records to show, failures first.", group="output", at_least=0, metavar="N"
    )
