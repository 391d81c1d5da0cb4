"""The score: groups of measured values, tiers, tasks and frontier; each null has a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.engines.item_counts import Items
from calipers.statistics.estimates import Corrected
from calipers.support.errors import (
    EXIT_INCOMPLETE,
    EXIT_PASS,
    NotFoundError,
    nearest,
    require_extra,
)
from calipers.support.printing import Printed, Tabular, list_metric_rows
from calipers.support.strict_json import to_finite, to_plain, to_plain_fields
from calipers.support.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from calipers.reports.charts.chart import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedValue:
    """A value of tiers with its interval; a bound that the data cannot give has its reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    interval: str | None = None  # the method
    reason: str | None = None  # why there is no value, or no interval

    def __post_init__(self) -> None:
        if (self.interval is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTest:
    """A tier against the baseline: the difference of their mean composites, and its p-value."""

    difference: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None  # adjusted for the tests of all tiers
    test: str | None = None
    effect: float | None = None
    effect_name: str | None = None
    n: int = 0  # tasks, or runs
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.p_value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Tiers side by side: how far each is above the baseline, and how much they differ."""

    by: Mapping[str, Any]
    baseline: str
    uplift: Mapping[str, float | None]
    pass_rate_variance: float | None
    pass_rate_mean_variance: float | None
    cost_variance: float | None
    cost_delta: float | None
    consistency: Mapping[str, float] = field(default_factory=dict)  # of tiers with two runs
    median_composite: Mapping[str, BoundedValue] = field(default_factory=dict)
    uplift_intervals: Mapping[str, BoundedValue] = field(default_factory=dict)
    intervals: Mapping[str, BoundedValue] = field(default_factory=dict)  # of what differs
    tests: Mapping[str, TierTest] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)  # of tiers with failed calls
    reasons: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of the tiers."""
        parts = to_plain_fields(self)
        optional = ("by", "consistency", "warnings", "reasons")
        return {name: part for name, part in parts.items() if part or name not in optional}


@dataclass(frozen=True, slots=True, kw_only=True)
class BestVariant:
    """The best configuration, with an interval that holds for all of them at once."""

    metric: str
    by: Mapping[str, Any]
    value: float
    low: float | None
    high: float | None
    among: int
    alike: tuple[Mapping[str, Any], ...]  # those that cannot be told from it
    tasks: int
    scope: str | None = None  # what the interval is limited to; None: further tasks
    reason: str | None = None  # why it has no interval


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """The shares of the variance of one run that tasks, variants and runs have."""

    by: Mapping[str, Any]
    metric: str
    task: float
    variant: float
    together: float | None  # how tasks and variants go together
    run: float | None
    rest: float | None  # the last two, where no cell has two runs
    tasks: int
    variants: int
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the shares: `task_by_variant` is of both together."""
        found = to_plain_fields(self)
        found["task_by_variant"] = found.pop("together")
        return {name: each for name, each in found.items() if each is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """What the configurations of systems or tiers show."""

    best: BestVariant | None = None  # where groups are by variant
    variance: tuple[VarianceSplit, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the configurations."""
        return {
            **({} if self.best is None else {"best": to_plain_fields(self.best)}),
            **({"variance": to_plain(self.variance)} if self.variance else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyTask:
    """A task of which some runs pass and some fail."""

    by: Mapping[str, Any]
    id: str
    passes: int
    runs: int  # that are known to pass or fail


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTask:
    """The tasks of all groups: how many there are and how many are flaky, and some of these."""

    tasks: int
    repeated: int  # with two runs or more that are known to pass or fail
    flaky: int
    flakiest: tuple[FlakyTask, ...]
    path: str | None  # the file with a row per task, where one was asked for
    items: Items | None = None  # of these rows: how well the tasks tell systems apart

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the tasks."""
        parts = to_plain_fields(self)
        return {name: part for name, part in parts.items() if part is not None or name != "items"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFrontier:
    """What a group contributes to the frontier."""

    by: Mapping[str, Any]
    tasks: int  # that it tried, where cost and outcome are known
    best: int  # of these, where no other group is cheaper
    only: int  # of these, where no other group passes
    saves: float | None  # USD a task, against the next best, over the others of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The cheapest way to a pass of each task, over all groups."""

    tasks: int
    solved: int  # by any group
    unknown_cost: int = 0  # of these, at unknown cost only
    cost_of_pass: float | None  # the mean over all tasks: infinite where one is not solved
    solved_cost_of_pass: float | None  # over the solved ones whose cost is known
    low: float | None
    high: float | None
    groups: tuple[OnFrontier, ...]

    @property
    def reason(self) -> str | None:
        """Why the cost over all tasks is null; None where it is not."""
        if self.cost_of_pass is not None:
            return None
        which = f"{self.unknown_cost:,} of {self.solved:,} solved tasks"
        return f"{which} passed at unknown cost only: record cost_usd, or give prices"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the frontier."""
        return {
            "tasks": self.tasks,
            "solved": self.solved,
            **({"unknown_cost": self.unknown_cost} if self.unknown_cost else {}),
            "cost_of_pass": to_finite(self.cost_of_pass),
            **({} if self.reason is None else {"reason": self.reason}),
            "solved_cost_of_pass": {
                "value": self.solved_cost_of_pass,
                "low": self.low,
                "high": self.high,
                "interval": "t",
            },
            "groups": to_plain(self.groups),
        }


ALL_FAILED = "every call failed"

Number = int | float  # a count that is read back stays whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric's value in a group, its interval, and how many rows it is based on."""

    value: float | None
    n: int
    missing: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    interval_reason: str | None = None  # why it lacks a bound
    scope: str | None = None  # what the interval is limited to; None: further tasks
    # Of a share: the effective number of independent rows. It is not stored.
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
            **({} if self.corrected is None else {"corrected": to_plain(self.corrected)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of values between one edge and the next, the last edge included."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """The judges of a judged value in some rows: models with the hashes of their rubrics."""

    value: str  # passed, impl_rate, or the rubric's name
    members: tuple[tuple[str, str], ...]  # empty if there are too many to list
    rows: int
    rated: Mapping[int, int] = field(default_factory=dict)  # rows each calibration was made from
    flagged: int = 0  # of the rows, those whose text seems to address the judge

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one judge."""
        members = [{"model": model, "rubric_hash": of or None} for model, of in self.members]
        flagged = {"flagged": self.flagged} if self.flagged else {}
        return {"value": self.value, "by": members, "rows": self.rows, **flagged}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Tabular):
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
    # What decided each part of its rows (metrics/provenance.py), for gates. It is not stored.
    words: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)
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
            "statistics": to_plain(self.statistics),
            "grade": self.grade,
            "grade_interval": to_plain(self.grade_interval),
            "median_composite": to_plain(self.median_composite),
        }
        return {
            "by": dict(self.by),
            "records": self.records,
            "errors": self.errors,
            "truncated": self.truncated,
            **({"failures": self.failures} if self.failures else {}),
            **({} if self.warning is None else {"warning": self.warning}),
            "metrics": to_plain(self.metrics),
            **({} if self.statistics is None else tiers),
            **({"histograms": to_plain(self.histograms)} if self.histograms else {}),
            **({"reliability": to_plain(self.reliability)} if self.reliability else {}),
            **({"judges": to_plain(self.judges)} if self.judges else {}),
            **({} if self.flagged is None else {"flagged": self.flagged}),
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per metric, as the whole score has them."""
        return list_metric_rows(self.by, to_plain(self.metrics))


def list_metric_names(groups: Sequence[Group]) -> list[str]:
    """Return the metrics that any group has; of columns, without making groups of them."""
    own = getattr(groups, "metrics", None)
    return list(own or dict.fromkeys(name for group in groups for name in group.metrics))


def find_column(groups: Sequence[Group], name: str) -> Any:
    """Return a metric's column, where the groups are held in columns and have it."""
    return getattr(groups, "metrics", {}).get(name)


def count_over(groups: Sequence[Group], name: str) -> int:
    """Return a count, such as `records`, over all groups; of columns, without making groups."""
    if hasattr(groups, "sum_counts"):
        return int(groups.sum_counts(name))
    return sum(getattr(group, name) or 0 for group in groups)


SCHEMA = "calipers.score/1"
_NAMED_GROUPS = 6  # in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFigure:
    """A figure that a log states about itself, beside ours."""

    name: str
    value: float
    n: int | None = None
    ours: str | None = None  # the metric that is about the same thing
    about: tuple[str, ...] = ()  # all metrics that are, that one among them
    measured: float | None = None  # its value over this input
    equal: bool | None = None  # up to rounding; None where ours was not measured
    reason: str = ""  # of a difference, where it is known
    leads: bool = False  # the tool's own verdict, which stands before ours
    logs: int = 1  # how many logs state it together

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one figure."""
        shown = {"name": self.name, "value": self.value, "n": self.n}
        return {**shown, "ours": self.ours, "equal": self.equal}


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A source of records: its path, its rows and its hash."""

    path: str
    rows: int
    sha256: str | None
    skipped: int = 0
    nulled: int = 0  # values outside their range
    format: str | None = None  # of another tool whose log it is
    stated: tuple[StatedFigure, ...] = ()  # figures of that log itself

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one input.

        `skipped` counts the bad rows left out, `nulled` the values made null.
        """
        shown = {"path": self.path, "rows": self.rows, "sha256": self.sha256}
        shown |= {"skipped": self.skipped} if self.skipped else {}
        shown |= {"nulled": self.nulled} if self.nulled else {}
        shown |= {"format": self.format} if self.format else {}
        stated = [figure.to_dict() for figure in self.stated]
        return shown | ({"stated": stated} if stated else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A slice's value of a metric, the same shrunken, and bounds that hold for all slices."""

    by: Mapping[str, Any]
    metric: str
    n: int
    value: float
    shrunken: float
    low: float | None
    high: float | None
    slices: int  # that were read together


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Printed, Tabular):
    """Everything `calipers score` measured. Prints as a table, shows as HTML in a notebook."""

    groups: Sequence[Group]  # a tuple, or the columns of many
    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()
    seed: int = 0
    tiers: tuple[Tiers, ...] = ()  # one, or one per value of the other fields grouped by
    per_task: PerTask | None = None  # of profile tiers, or where a row per task was asked for
    frontier: Frontier | None = None  # of cost of pass, where several groups have one
    variants: Variants | None = None  # where records have several
    repeated: int = 0  # records that repeat the id, model, tier and run of another
    has_repeats: bool = field(default=False, compare=False)  # a task has several rows in a group
    recorded_twice: tuple[str, ...] = ()  # why some records are no evidence of their own
    metric_versions: Mapping[str, int] = field(default_factory=dict)  # of the definitions used
    slices: tuple[Slice, ...] = ()  # of the tasks, read together
    whole: bool = field(default=False, compare=False)  # whether tables show every metric

    def __post_init__(self) -> None:
        if isinstance(self.groups, list):  # as JSON has them
            object.__setattr__(self, "groups", tuple(self.groups))

    @property
    def records(self) -> int:
        """The number of records that were measured."""
        return count_over(self.groups, "records")

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
        groups = [
            group
            for group in self.groups
            if all(group.by.get(name, missing) == value for name, value in by.items())
        ]
        if len(groups) != 1:
            asked = ", ".join(f"{name}={value!r}" for name, value in by.items())
            what = "no group has" if not groups else f"{len(groups)} groups have"
            raise NotFoundError(
                f"group({asked}): {what} these values{self._name_groups()}",
                fix=f"for example score.group({self._show_example()})",
            )
        return groups[0]

    def _name_groups(self) -> str:
        """Return the first groups, described in words."""
        first = self.groups[:_NAMED_GROUPS]
        some = [", ".join(f"{k}={v!r}" for k, v in group.by.items()) for group in first]
        more = "; …" if len(self.groups) > _NAMED_GROUPS else ""
        return f": {'; '.join(some)}{more}" if some and some[0] else ""

    def _show_example(self) -> str:
        first = self.groups[0].by if self.groups else {}
        return ", ".join(f"{name}={value!r}" for name, value in first.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        return describe_score(self, to_plain(tuple(self.groups)))

    def write_json(self, write: Callable[[str], object]) -> None:
        """Write what `to_json` returns; of many groups, a few thousand at a time."""
        if not hasattr(self.groups, "sum_counts"):
            write(self.to_json())
            return
        from calipers.scores.score_json import write_score  # noqa: PLC0415 (only for many groups)

        write_score(self, write)

    def to_polars(self) -> pl.DataFrame:
        """Return a table with a row per group and metric."""
        frame: pl.DataFrame = self._render("frame")
        return frame

    def to_csv_wide(self) -> str:
        """Return CSV with a row per group: its fields, and each metric with its bounds."""
        from calipers.reports.formats.spreadsheets import render_wide_csv  # noqa: PLC0415

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
        from calipers.reports.charts import draw_charts  # noqa: PLC0415
        from calipers.reports.charts.chart import save_charts  # noqa: PLC0415

        charts, left_out = draw_charts(self, profile)
        save_charts(charts, Path(folder))
        return {} if profile is None and charts else left_out


def describe_score(score: Score, groups: list[Any]) -> dict[str, Any]:
    """Return the contract's JSON of a score, with these groups in it."""
    from calipers.metrics.stored_metrics import describe_own  # noqa: PLC0415 (loads Polars)

    # For readers without the code of user-defined metrics.
    own = describe_own(dict.fromkeys(list_metric_names(score.groups)))
    tiers = to_plain(score.tiers)
    is_alone = len(tiers) == 1 and not score.tiers[0].by
    return {
        "schema": SCHEMA,
        "version": __version__,
        "seed": score.seed,
        "settings": dict(score.settings),
        "inputs": to_plain(score.inputs),
        "groups": groups,
        **({"metric_versions": dict(score.metric_versions)} if score.metric_versions else {}),
        **({"slices": to_plain(score.slices)} if score.slices else {}),
        **({"own_metrics": own} if own else {}),
        **({"tiers": tiers[0] if is_alone else tiers} if tiers else {}),
        **({} if score.per_task is None else {"per_task": score.per_task.to_dict()}),
        **({} if score.frontier is None else {"frontier": score.frontier.to_dict()}),
        **({} if score.variants is None else {"variants": score.variants.to_dict()}),
        **({"notices": list(score.notices)} if score.notices else {}),
    }


def require_figures(what: str) -> None:
    """Raise MissingExtraError if the packages that draw are not installed."""
    require_extra(f"{what}: vl-convert is not installed", extra="figures", modules=("vl_convert",))
