"""What a user can ask of `run` and `report`, and not of `score`.

A field that `option` makes is an option of the command line and a keyword in Python.
"""

from pathlib import Path
from typing import Any, Literal

from calipers.support.options import flag, option
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a user can ask of a run beside what its suite says."""

    fresh: bool = flag(
        "Call everything again, in a new folder; the old results are kept.", group="calls"
    )
    until_decided: bool = flag(
        "Stop as soon as the verdict of the suite's gate is certain.", group="calls"
    )
    until_better: str | None = option(
        None,
        "Stop as soon as it is certain which of the suite's two systems is better in METRIC, "
        "or that it cannot be told.",
        group="calls",
        metavar="METRIC",
    )
    evidence: Literal["interval", "point"] = option(
        "interval",
        "With --until-better: better on tasks like these, or on exactly these tasks.",
        group="calls",
    )
    seed: int = option(
        0,
        "With --until-decided and --until-better: random seed for the order of the tasks.",
        group="calls",
        at_least=0,
    )
    shard: str | None = option(
        None,
        "Call the systems on every N-th task alone, from the I-th on, in a folder of its own. The "
        "policy is asked once the shards are merged.",
        group="calls",
        metavar="I/N",
    )
    checks: Any = option(
        None,
        "Add the checks in FILE, YAML or JSON, to those of the suite.",
        group="input",
        metavar="FILE",
        python="str | Path | Sequence[Mapping[str, Any]] | None",
    )
    report: bool = option(
        True,  # noqa: FBT003 (the default)
        "Write report.html into the folder.",
        group="output",
    )


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
