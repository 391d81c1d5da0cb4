"""A group of records: its values, each with a reason if it is null, and the data of figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from calipers.scores.tier_results import BoundedValue
from calipers.statistics.estimates import Corrected
from calipers.support.errors import NotFoundError, nearest
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_finite, to_plain
from calipers.support.tabular import Tabular, list_metric_rows

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
    """How many values lie between one edge and the next, the last edge itself counted in."""

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
