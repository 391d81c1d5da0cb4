"""The score: groups of measured values, frozen, with a reason for every null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.scores.group_results import (
    ALL_FAILED,
    Group,
    Histogram,
    JudgedBy,
    Measured,
    ReliabilityBin,
)
from calipers.scores.tier_results import (
    BoundedValue,
    FlakyTask,
    Frontier,
    OnFrontier,
    PerTask,
    Tiers,
)
from calipers.support.errors import EXIT_INCOMPLETE, EXIT_PASS, NotFoundError, require_extra
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain
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
_NAMED_GROUPS = 6  # in a message


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
        from calipers.metrics.stored import describe_own  # noqa: PLC0415 (loads Polars)

        # For readers without the code of user-defined metrics.
        own = describe_own({name: None for group in self.groups for name in group.metrics})
        tiers = to_plain(self.tiers)
        is_alone = len(tiers) == 1 and not self.tiers[0].by
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "settings": dict(self.settings),
            "inputs": to_plain(self.inputs),
            "groups": to_plain(self.groups),
            **({"metric_versions": dict(self.metric_versions)} if self.metric_versions else {}),
            **({"own_metrics": own} if own else {}),
            **({"tiers": tiers[0] if is_alone else tiers} if tiers else {}),
            **({} if self.per_task is None else {"per_task": self.per_task.to_dict()}),
            **({} if self.frontier is None else {"frontier": self.frontier.to_dict()}),
            **({"notices": list(self.notices)} if self.notices else {}),
        }

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


def require_figures(what: str) -> None:
    """Raise MissingExtraError if the packages that draw are not installed."""
    require_extra(f"{what}: vl-convert is not installed", extra="figures", modules=("vl_convert",))
