"""What a score is: groups of measured values, frozen, with a reason for every null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calipers.errors import EXIT_INCOMPLETE, EXIT_PASS
from calipers.version import __version__

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "calipers.score/1"


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
    extras: Mapping[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON of one metric."""
        return {
            "value": finite_json(self.value),
            "low": finite_json(self.low),
            "high": finite_json(self.high),
            "stderr": finite_json(self.stderr),
            "interval": self.interval,
            "n": self.n,
            "missing": self.missing,
            "reason": self.reason,
            **self.extras,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The records that share a key, and what was measured on them."""

    by: Mapping[str, Any]
    records: int
    errors: int
    metrics: Mapping[str, Measured]
    statistics: Mapping[str, Mapping[str, float | None] | None] | None = None  # of profile tiers
    grade: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON of one group."""
        tiers = {"statistics": self._statistics(), "grade": self.grade}
        return {
            "by": dict(self.by),
            "records": self.records,
            "errors": self.errors,
            "metrics": {name: measured.to_dict() for name, measured in self.metrics.items()},
            **({} if self.statistics is None else tiers),
        }

    def _statistics(self) -> dict[str, dict[str, Any] | None]:
        return {
            name: None
            if found is None
            else {key: finite_json(value) for key, value in found.items()}
            for name, found in (self.statistics or {}).items()
        }


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
    reasons: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON of the tiers."""
        return {
            **({"by": dict(self.by)} if self.by else {}),
            "baseline": self.baseline,
            "uplift": dict(self.uplift),
            "pass_rate_variance": self.pass_rate_variance,
            "pass_rate_mean_variance": self.pass_rate_mean_variance,
            "cost_variance": self.cost_variance,
            "cost_delta": self.cost_delta,
            **({"reasons": dict(self.reasons)} if self.reasons else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Where records came from."""

    path: str
    rows: int
    sha256: str | None
    skipped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON of one input; `skipped` counts the bad rows that were left out."""
        shown = {"path": self.path, "rows": self.rows, "sha256": self.sha256}
        return shown | ({"skipped": self.skipped} if self.skipped else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Everything `calipers score` measured. Prints as a table, shows as HTML in a notebook."""

    groups: tuple[Group, ...]
    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    notices: tuple[str, ...] = ()
    seed: int = 0
    tiers: tuple[Tiers, ...] = ()  # one, or one per value of the other fields grouped by

    @property
    def records(self) -> int:
        """How many records were measured."""
        return sum(group.records for group in self.groups)

    @property
    def exit_code(self) -> int:
        """What the command line gives back: 3 when there was nothing to measure."""
        return EXIT_PASS if self.records else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON, as Python values."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "settings": dict(self.settings),
            "inputs": [each.to_dict() for each in self.inputs],
            "groups": [group.to_dict() for group in self.groups],
            **self._tiers(),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

    def _tiers(self) -> dict[str, Any]:
        if not self.tiers:
            return {}
        alone = len(self.tiers) == 1 and not self.tiers[0].by
        return {"tiers": self.tiers[0].to_dict() if alone else [t.to_dict() for t in self.tiers]}

    def to_json(self, *, indent: int | None = 1) -> str:
        """The contract's JSON: strict, the same bytes for the same input."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_polars(self) -> pl.DataFrame:
        """A row per group and metric."""
        from calipers.reporting.frames import score_frame  # noqa: PLC0415 (loads Polars)

        return score_frame(self)

    def __str__(self) -> str:
        from calipers.reporting.terminal import score_text  # noqa: PLC0415 (loads rich)

        return score_text(self)

    def _repr_html_(self) -> str:
        from calipers.reporting.html import score_html  # noqa: PLC0415 (only in notebooks)

        return score_html(self)


def finite_json(value: float | None) -> float | str | None:
    """A number as strict JSON has it: an infinite one is a string."""
    if value is None or math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"
