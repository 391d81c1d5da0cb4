"""The options of `score` that are not those of metrics; each is declared here, and only here.

A field's type, default, help and bounds make it an option of the commands it names and a keyword in
Python (`support/options.py`). How records are read is in `records/reading_options.py`, how metrics
are computed in `metrics/declare/settings.py`, what one other command has alone in its own room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from calipers.metrics import PROFILES
from calipers.metrics.declare.settings import Settings, list_metric_options
from calipers.records.reading_options import MEASURING, ReadingOptions
from calipers.support.errors import UsageError, nearest
from calipers.support.options import (
    Option,
    flag,
    list_own_options,
    option,
    read_options,
    split_names,
)

if TYPE_CHECKING:
    from calipers.engines.plan import Plan
    from calipers.records.batch import Source
    from calipers.scores.calibration import Calibration

MOST_CROSSED = 3
_EVIDENCE = ("score", "gate", "compare", "rank", "report", "audit")
_RESAMPLED = ("score", "gate", "compare", "rank", "report")
_statistics, _output = partial(option, group="statistics"), partial(option, group="output")


def _read_calibrations(paths: tuple[Path, ...]) -> "tuple[Calibration, ...]":
    from calipers.scores.calibration import read_calibration_files  # noqa: PLC0415 (loads Polars)

    return read_calibration_files(paths)


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
        f"Compute only the metrics of one family: {', '.join(PROFILES)}, or one of a plug-in.",
        metavar="NAME",
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
        may_be_empty=True,
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
        "Treat rows that share FIELD as dependent; by default a task's runs. Nested fields: the "
        "outermost first, as in repo,file.",
        metavar="FIELD,…",
        commands=(*_EVIDENCE, "power"),
    )
    guarantee: bool = flag(
        "Intervals of bounded means and differences that hold for any shape and number of values.",
        group="statistics",
        commands=("score", "compare"),
    )
    random: tuple[str, ...] = _statistics(
        (),
        "Crossed fields, such as task,variant: the interval is for further values of each of them.",
        parse=split_names,
        metavar="FIELD,…",
        commands=("score", "compare"),
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
        commands=("score", "compare", "gate"),
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
        "Write a row per record to a .parquet or .jsonl file, or a new table delta:FOLDER or "
        "iceberg:NAME; with Spark also to a new table:NAME.",
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
    licences: "tuple[Calibration, ...]" = ()  # of judges whose means stay as they are
    must_measure: bool = False  # whether records of which nothing can be measured are an error
    who_judged: bool = False  # whether each group says who made its judged values

    def __post_init__(self) -> None:
        super().__post_init__()
        for declared in read_options(Options, "selection").values():
            if declared.kind in ("whole", "number", "choice"):
                declared.check(getattr(self, declared.name))
        if self.tasks == "fixed" and (self.cluster is not None or self.resamples):
            raise UsageError(
                "--tasks fixed: only the runs of a task vary, no clusters and no resamples",
                fix="leave --cluster and --resamples out",
            )
        if self.random:  # in Python also "task,variant"
            object.__setattr__(self, "random", split_names(self.random))
        if self.guarantee and (self.random or self.resamples or self.tasks == "fixed"):
            raise UsageError(
                "--guarantee: nothing is guaranteed for crossed fields, resamples or fixed tasks",
                fix="leave --random, --resamples and --tasks fixed out",
            )
        if self.random and (self.cluster is not None or self.resamples or self.tasks == "fixed"):
            raise UsageError(
                "--random: crossed fields take the place of --cluster, and are not resampled",
                fix="leave --cluster, --resamples and --tasks fixed out",
            )
        if len(self.random) == 1 or len(self.random) > MOST_CROSSED:
            raise UsageError(
                f"--random {','.join(self.random)}: two or three fields can be crossed",
                fix="for example --random task,variant; of one field: --cluster FIELD",
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
        from calipers.scores.score_plan import make_score_plan  # noqa: PLC0415 (loads Polars)

        return make_score_plan(self, sources)


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
    return first | {
        declared.keyword: declared for declared in shared if command in declared.commands
    }
