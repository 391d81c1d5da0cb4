"""The score: groups of measured values, frozen, with a reason for every null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.scores.tier_results import (
    BoundedValue,
    FlakyTask,
    Frontier,
    OnFrontier,
    PerTask,
    Tiers,
)
from calipers.statistics.estimates import Corrected
from calipers.support.errors import (
    EXIT_INCOMPLETE,
    EXIT_PASS,
    NotFoundError,
    nearest,
    require_extra,
)
from calipers.support.printing import Printed
from calipers.support.strict_json import to_finite
from calipers.support.tabular import Tabular
from calipers.support.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from calipers.reports.charts import Chart

__all__ = [
    "ALL_FAILED",
    "SCHEMA",
    "BoundedValue",
    "FlakyTask",
    "Frontier",
    "Group",
    "Histogram",
    "Input",
    "JudgedBy",
    "Measured",
    "OnFrontier",
    "PerTask",
    "ReliabilityBin",
    "Score",
    "Tiers",
    "require_figures",
]

SCHEMA = "calipers.score/1"
ALL_FAILED = "every call failed"
_NAMED_GROUPS = 6  # in a message

Number = int | float  # a count that is read back stays whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric's value in a group, and how many rows stand behind it."""

    value: float | None
    n: int
    missing: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    interval_reason: str | None = None  # why it lacks a bound
    scope: str | None = None  # what alone the interval holds for, where not for further tasks
    # Of a share: as many independent rows would say as much. It is not stored.
    worth: float | None = field(default=None, compare=False)
    extras: Mapping[str, Number | str | None] = field(default_factory=dict)
    corrected: Corrected | None = None  # without the judge's error, where a calibration allows it

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one metric."""
        return {
            "value": to_finite(self.value),
            "low": to_finite(self.low),
            "high": to_finite(self.high),
            "stderr": to_finite(self.stderr),
            "interval": self.interval,
            "n": self.n,
            "missing": self.missing,
            "reason": self.reason,
            **({"interval_reason": self.interval_reason} if self.interval_reason else {}),
            **({"scope": self.scope} if self.scope else {}),
            **self.extras,
            **({} if self.corrected is None else {"corrected": asdict(self.corrected)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many values lie between one edge and the next, the last edge itself counted in."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one histogram."""
        return {"edges": list(self.edges), "counts": list(self.counts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """The answers whose confidence lies above one edge and up to the next."""

    low: float
    high: float
    n: int
    confidence: float  # the mean
    accuracy: float
    accuracy_low: float | None
    accuracy_high: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one bin."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """Who made a judged value of so many rows: models with the hashes of their rubrics."""

    value: str  # passed, impl_rate, or the rubric's name
    members: tuple[tuple[str, str], ...]  # nobody: too many to be told apart
    rows: int
    rated: Mapping[int, int] = field(default_factory=dict)  # rows each calibration was made from
    flagged: int = 0  # of the rows, those whose text seems to address the judge

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one judge."""
        members = [{"model": model, "rubric_hash": of or None} for model, of in self.members]
        flagged = {"flagged": self.flagged} if self.flagged else {}
        return {"value": self.value, "by": members, "rows": self.rows, **flagged}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The records that share a key, and what was measured on them."""

    by: Mapping[str, Any]
    records: int
    errors: int
    metrics: Mapping[str, Measured]
    statistics: Mapping[str, Mapping[str, Number | None] | None] | None = None  # of profile tiers
    grade: str | None = None
    grade_interval: tuple[str, str] | None = None  # the grades of the median composite's bounds
    median_composite: BoundedValue | None = None  # what the grade rests on
    histograms: Mapping[str, Histogram | None] = field(default_factory=dict)  # with a profile
    truncated: int = 0  # replies that were cut off; they are in the metrics
    reliability: tuple[ReliabilityBin, ...] = ()  # with a profile, where confidence is stated
    judges: tuple[JudgedBy, ...] = ()  # where that was asked for
    flagged: int | None = None  # judged records whose text seems to address the judge
    failures: int = 0  # failed calls that count as failures (--errors fail)

    @property
    def warning(self) -> str | None:
        """What to know before relying on these values: how many calls failed; None if none did."""
        if self.failures:
            return f"{self.failures:,} of {self.records:,} calls failed and count as failures"
        if self.errors:
            return (
                f"{self.errors:,} of {self.records:,} calls failed and are in no metric; "
                "--errors fail counts them as failures"
            )
        return None

    def __getitem__(self, metric: str) -> Measured:
        """Return a metric's value in this group.

        Raises:
            NotFoundError: It was not measured.
        """
        if metric not in self.metrics:
            raise NotFoundError(
                f"no metric {metric!r} was measured", fix=nearest(str(metric), self.metrics)
            )
        return self.metrics[metric]

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one group."""
        tiers = {
            "statistics": self._dump_statistics(),
            "grade": self.grade,
            "grade_interval": self.grade_interval and list(self.grade_interval),
            "median_composite": self.median_composite and self.median_composite.to_dict(),
        }
        histograms = {
            name: None if found is None else found.to_dict()
            for name, found in self.histograms.items()
        }
        reliability = [each.to_dict() for each in self.reliability]
        return {
            "by": dict(self.by),
            "records": self.records,
            "errors": self.errors,
            "truncated": self.truncated,
            **({"failures": self.failures} if self.failures else {}),
            **({} if self.warning is None else {"warning": self.warning}),
            "metrics": {name: measured.to_dict() for name, measured in self.metrics.items()},
            **({} if self.statistics is None else tiers),
            **({"histograms": histograms} if histograms else {}),
            **({"reliability": reliability} if reliability else {}),
            **({"judges": [each.to_dict() for each in self.judges]} if self.judges else {}),
            **({} if self.flagged is None else {"flagged": self.flagged}),
        }

    def _dump_statistics(self) -> dict[str, dict[str, Any] | None]:
        return {
            name: None if found is None else {key: to_finite(value) for key, value in found.items()}
            for name, found in (self.statistics or {}).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Where records came from."""

    path: str
    rows: int
    sha256: str | None
    skipped: int = 0
    format: str | None = None  # of another tool whose log it is

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one input; `skipped` counts the bad rows left out."""
        shown = {"path": self.path, "rows": self.rows, "sha256": self.sha256}
        shown |= {"skipped": self.skipped} if self.skipped else {}
        return shown | ({"format": self.format} if self.format else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Printed, Tabular):
    """Everything `calipers score` measured. Prints as a table, shows as HTML in a notebook."""

    groups: tuple[Group, ...]
    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()
    seed: int = 0
    tiers: tuple[Tiers, ...] = ()  # one, or one per value of the other fields grouped by
    per_task: PerTask | None = None  # of profile tiers, or where a row per task was asked for
    frontier: Frontier | None = None  # of cost of pass, where several groups have one
    repeated: int = 0  # records that repeat the id, model, tier and run of another
    metric_versions: Mapping[str, int] = field(default_factory=dict)  # of the definitions used

    @property
    def records(self) -> int:
        """How many records were measured."""
        return sum(group.records for group in self.groups)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.records else EXIT_INCOMPLETE

    def __getitem__(self, metric: str) -> Measured:
        """Return a metric's value, where there is one group: `score["accuracy"].value`.

        Raises:
            NotFoundError: There are several groups, or the metric was not measured.
        """
        if len(self.groups) != 1:
            raise NotFoundError(
                f"{metric}: the score has {len(self.groups)} groups{self._name_groups()}",
                fix=f"choose one: score.group({self._show_example()})[{metric!r}]",
            )
        return self.groups[0][metric]

    def group(self, **by: Any) -> Group:
        """Return the one group of the fields named: `score.group(model="m0")`.

        Raises:
            NotFoundError: No group has these values, or several have them.
        """
        missing = object()
        found = [
            group
            for group in self.groups
            if all(group.by.get(name, missing) == value for name, value in by.items())
        ]
        if len(found) != 1:
            asked = ", ".join(f"{name}={value!r}" for name, value in by.items())
            what = "no group has" if not found else f"{len(found)} groups have"
            raise NotFoundError(
                f"group({asked}): {what} these values{self._name_groups()}",
                fix=f"for example score.group({self._show_example()})",
            )
        return found[0]

    def _name_groups(self) -> str:
        """Return the first groups, described in words."""
        some = [", ".join(f"{k}={v!r}" for k, v in group.by.items()) for group in self.groups]
        more = "; …" if len(some) > _NAMED_GROUPS else ""
        return f": {'; '.join(some[:_NAMED_GROUPS])}{more}" if some and some[0] else ""

    def _show_example(self) -> str:
        first = self.groups[0].by if self.groups else {}
        return ", ".join(f"{name}={value!r}" for name, value in first.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "settings": dict(self.settings),
            "inputs": [each.to_dict() for each in self.inputs],
            "groups": [group.to_dict() for group in self.groups],
            **({"metric_versions": dict(self.metric_versions)} if self.metric_versions else {}),
            **self._describe_own_metrics(),
            **self._dump_tiers(),
            **({} if self.per_task is None else {"per_task": self.per_task.to_dict()}),
            **({} if self.frontier is None else {"frontier": self.frontier.to_dict()}),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def _describe_own_metrics(self) -> dict[str, Any]:
        """Return descriptions of user-defined metrics, for readers without their code."""
        from calipers.metrics.stored import describe_own  # noqa: PLC0415 (loads Polars)

        found = describe_own({name: None for group in self.groups for name in group.metrics})
        return {"own_metrics": found} if found else {}

    def _dump_tiers(self) -> dict[str, Any]:
        if not self.tiers:
            return {}
        alone = len(self.tiers) == 1 and not self.tiers[0].by
        return {"tiers": self.tiers[0].to_dict() if alone else [t.to_dict() for t in self.tiers]}

    def to_polars(self) -> pl.DataFrame:
        """Return a table with a row per group and metric."""
        frame: pl.DataFrame = self._render("frame")
        return frame

    def to_csv_wide(self) -> str:
        """Return CSV with a row per group: its fields, and each metric with its bounds."""
        from calipers.reports.spreadsheets import render_wide_csv  # noqa: PLC0415

        return render_wide_csv(self)

    def charts(self) -> dict[str, Chart]:
        """Return the figures that the score allows, by name."""
        require_figures("charts")
        from calipers.reports.charts import draw_charts  # noqa: PLC0415

        return draw_charts(self)[0]

    def save_figures(self, folder: str | Path, profile: str | None = None) -> dict[str, str]:
        """Write each figure, or those of a profile, as SVG, PDF and PNG; say why others are not.

        Without a profile the reasons, by name, are given only where no figure can be drawn.
        """
        require_figures("figures")
        from calipers.reports.charts import FIGURES, draw_charts, save_charts  # noqa: PLC0415

        charts, left_out = draw_charts(self)
        asked = {*charts, *left_out} if profile is None else FIGURES[profile]
        save_charts({name: chart for name, chart in charts.items() if name in asked}, Path(folder))
        if profile is None and charts:
            return {}
        return {name: why for name, why in left_out.items() if name in asked}

    def _repr_html_(self) -> str:
        from calipers.reports.notebook import render_score_figures  # noqa: PLC0415 (only in notebooks)

        return Printed._repr_html_(self) + render_score_figures(self)


def require_figures(what: str) -> None:
    """Raise MissingExtraError if the packages that draw are not installed."""
    require_extra(
        f"{what}: vl-convert is not installed",
        extra="figures",
        modules=("vl_convert",),
    )
