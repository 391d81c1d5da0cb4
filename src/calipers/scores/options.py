"""The options of `score` that are not those of metrics; each is declared here, and only here.

A field's type, default, help and bounds make it an option of the commands it names and a keyword
in Python (`support/options.py`). How records are read is in `records/options.py`, how metrics are
computed in `metrics/declare/settings.py`, what one other command has alone in its own room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from calipers.metrics import PROFILES
from calipers.metrics.declare.settings import Settings, list_metric_options
from calipers.records.options import MEASURING, ReadingOptions
from calipers.support.errors import UsageError, nearest
from calipers.support.options import Option, flag, list_own_options, option, read_options
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.engines.plan import Plan
    from calipers.records.sources import Source
    from calipers.scores.calibration import Calibration

_EVIDENCE = ("score", "gate", "compare", "rank", "report", "audit")
_RESAMPLED = ("score", "gate", "compare", "rank", "report")
_statistics, _output = partial(option, group="statistics"), partial(option, group="output")


def _read_calibrations(paths: tuple[Path, ...]) -> "tuple[Calibration, ...]":
    from calipers.scores.calibration import read_all  # noqa: PLC0415 (loads Polars)

    return read_all(paths)


@dataclass(frozen=True, kw_only=True)
class Options(ReadingOptions):
    """Everything a user can ask of a score."""

    by: tuple[str, ...] = option(
        (), "Group by FIELD (repeatable).", metavar="FIELD", commands=(*MEASURING, "audit")
    )
    metrics: tuple[str, ...] = option(
        (),
        "Compute only the metric NAME (repeatable).",
        flag="--metric",
        metavar="NAME",
        commands=("score", "compare", "rank", "power"),
    )
    profile: str | None = option(
        None,
        "Compute only the metrics of one family.",
        kind="choice",
        choices=PROFILES,
        python="str | None",
        commands=("score", "compare"),
    )
    policy: Any = option(
        None,
        "Apply the metric settings, weights and latency budget of a gate's policy.",
        group="metrics",
        kind="any",
        metavar="FILE",
        python="PolicyLike | None",
        commands=("score", "compare", "rank", "explain", "power"),
    )
    hash_inputs: bool = flag(
        "Hash inputs larger than 64 MiB too.", group="input", flag="--hash", commands=("score",)
    )
    baseline: str = option(
        "T0",
        "The tier that the others are compared with.",
        metavar="TIER",
        commands=("score", "report"),
    )
    confidence: float = _statistics(
        0.95,
        "Confidence level of the intervals.",
        metavar="C",
        above=0,
        below=1,
        fix="for example 0.95",
        commands=(*_EVIDENCE, "agree", "calibrate"),
    )
    cluster: str | None = _statistics(
        None,
        "Treat rows that share FIELD as dependent; by default a task's runs.",
        metavar="FIELD",
        commands=_EVIDENCE,
    )
    resamples: int = _statistics(
        0,
        "Bootstrap with N resamples; by default closed forms where available.",
        metavar="N",
        at_least=0,
        commands=_RESAMPLED,
    )
    seed: int = _statistics(
        0,
        "Random seed for resampling; it is recorded in the output.",
        at_least=0,
        commands=_EVIDENCE,
    )
    tasks: Literal["sampled", "fixed"] = _statistics(
        "sampled",  # fixed: only the noise of runs counts
        "Intervals for tasks like these, or for exactly these: only runs vary.",
        commands=("score", "compare"),
    )
    weight: Literal["task", "row"] | None = _statistics(
        None,  # as the command does by itself
        "What counts the same in a mean: every task, or every row.",
        defaults={"score": "row", "compare": "task"},
        commands=("score", "compare"),
    )
    calibrations: "tuple[Calibration, ...]" = _statistics(
        (),
        "Correct judged means by this file of `judge calibrate` (repeatable).",
        kind="paths",
        keyword="calibration",
        flag="--calibration",
        read=_read_calibrations,
        commands=("score",),
    )
    per_sample: Path | None = _output(
        None,
        "Write a row per record to a .parquet or .jsonl file; with Spark also to a new table:NAME.",
        commands=("score",),
    )
    per_task: Path | None = _output(
        None,
        "Write a row per group and task to a .parquet or .jsonl file, or table:NAME likewise.",
        commands=("score",),
    )
    figures: Path | None = _output(
        None,
        "Draw the figures, or those of the profile, as SVG, PDF and PNG into the folder DIR.",
        metavar="DIR",
        commands=("score", "rank", "report"),
    )

    rows: int = _output(
        5, "How many of the most influential rows to show.", at_least=0, commands=("explain",)
    )

    settings: Settings = field(default_factory=Settings)
    notices: tuple[str, ...] = ()  # what to say of how the settings came about
    for_report: bool = False  # with all that figures and lists of tasks need
    licences: "tuple[Calibration, ...]" = ()  # as calibrations, of a gate that does not correct
    must_measure: bool = False  # whether records of which nothing can be measured are an error
    who_judged: bool = False  # whether each group says who made its judged values

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in read_options(Options, "selection").values():
            if each.kind in ("whole", "number", "choice"):
                each.check(getattr(self, each.name))
        if self.tasks == "fixed" and (self.cluster is not None or self.resamples):
            raise UsageError(
                "--tasks fixed: only the runs of a task vary, no clusters and no resamples",
                fix="leave --cluster and --resamples out",
            )
        if self.weight == "task" and self.calibrations:
            raise UsageError(
                "--weight task: a judge is corrected over rows, not over tasks",
                fix="leave --weight or --calibration out",
            )
        check_map(self.map)

    def plan(self, sources: "Sequence[Source]" = ()) -> "Plan":
        """Return what to measure: the metrics named, or those of the profile, or all there are.

        With these go the scores that the sources bring.
        """
        from calipers.scores.plans import plan_of  # noqa: PLC0415 (loads Polars)

        return plan_of(self, sources)


def check_map(given: Mapping[str, str]) -> None:
    """Refuse a name in `--map` that is no field of the record."""
    from calipers.records.fields import FIELDS  # noqa: PLC0415 (loads Polars)

    for name in given:
        if name not in FIELDS:
            raise UsageError(
                f"--map {name}=…: the record has no field {name}", fix=nearest(name, FIELDS)
            )


def list_options(command: str, own: type | None = None) -> dict[str, Option]:
    """Return the declared options of a command, by their Python keywords.

    Those that only this command has come first: the fields of the dataclass `own`.
    """
    first = {} if own is None else list_own_options(command, own)
    shared = (*read_options(Options, "selection").values(), *list_metric_options().values())
    return first | {each.keyword: each for each in shared if command in each.commands}
