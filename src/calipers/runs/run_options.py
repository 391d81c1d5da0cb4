"""Options of `run`, `report` and `ci` beside those of `score`.

A field that `option` makes is an option of the command line and a keyword in Python. The command
line imports this file to print help: nothing heavy is imported here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from calipers.gates.gate_options import GateOptions
from calipers.support.options import flag, option


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a user can ask of a run beside what its suite says."""

    fresh: bool = flag(
        "Call everything again, in a new folder; the old results are kept.", group="calls"
    )
    until_decided: bool = flag(
        "Stop as soon as the verdict of the suite's gate is sure, to 95 % by default.",
        group="calls",
    )
    until_better: str | None = option(
        None,
        "Stop as soon as it is sure (to 95 %) which of the suite's two systems is better in "
        "METRIC, or that it cannot be told.",
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
    sabotage: bool = flag(
        "With --policy: show which damage to the records the gate does not notice.",
        group="output",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CiOptions:
    """What a pipeline can ask of its decision; each also from the environment, `CALIPERS_NAME`."""

    suite: str | None = option(
        None, "Run this suite, and decide on its records.", group="input", metavar="FILE"
    )
    records: tuple[str, ...] = option(
        (),
        "Decide on these records instead, files or globs, all together; needs --policy.",
        group="input",
        metavar="FILE…",
    )
    policy: str | None = option(
        None,
        "Policy to decide by; with a suite, its own unless given.",
        group="input",
        metavar="FILE",
    )
    by: tuple[str, ...] = option(
        (),
        "Decide on each value of FIELD alone (repeatable); with a suite, beside its systems and "
        "tiers.",
        group="selection",
        metavar="FIELD",
    )
    baseline: str | None = option(
        None,
        "Compare with the baseline in FILE: no worse by more than the policy's margins.",
        group="input",
        metavar="FILE",
    )
    fetch_baseline: Literal["github", "gitlab"] | None = option(
        None,
        "Compare with the baseline that a green build of the default branch recorded; a build of "
        "that branch records it.",
        group="input",
    )
    save_baseline: bool = flag(
        "Let a run without a baseline to compare with record the first one.", group="output"
    )
    fresh: bool = flag(
        "With a suite: call everything again; the old results are kept.", group="calls"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What a pipeline asks of a run's gate beside the suite's policy."""

    options: GateOptions
    by: tuple[str, ...] = ()  # fields that the gate separates, beside the suite's systems and tiers
