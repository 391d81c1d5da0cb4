"""What a ranking is: systems from the best down, what is known of each rank, and every pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calipers.scores.results import require_figures
from calipers.support.printing import Printed
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain
from calipers.support.tabular import Tabular, keep_scalars
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.reports.charts import Chart

SCHEMA = "calipers.rank/1"
_SYSTEM = (  # of its fields, in JSON
    *("by", "name", "value", "low", "high", "rank", "rank_low", "rank_high", "group"),
    *("n_tasks", "reason"),
)
_UNSAFE = re.compile(r"[^\w.-]+")  # in the name of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedValue:
    """A value with its interval; a bound that the data cannot give is null, with the reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength(RankedValue):
    """A system's strength by Bradley and Terry, in log odds, and how often it won."""

    win_rate: float  # of all its comparisons, a tie counted as half a win


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPart(RankedValue):
    """A system's value on some of the tasks; its interval holds for this one alone."""

    n_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSystem(RankedValue):
    """A system's value and rank, both with intervals that hold for all systems at once."""

    by: Mapping[str, Any]
    name: str
    rank: int
    rank_low: int
    rank_high: int
    group: str  # letters; systems that share one cannot be told apart
    n_tasks: int
    strength: Strength | None = None
    tasks: Mapping[str, TaskPart] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of one system."""
        found = {name: to_plain(getattr(self, name)) for name in _SYSTEM}
        if self.strength is not None:
            found["bradley_terry"] = to_plain(self.strength)
        if self.tasks:
            found["tasks"] = to_plain(self.tasks)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPair:
    """Two systems: a − b, with an interval and p-value adjusted for all pairs."""

    a: str
    b: str
    difference: float | None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    test: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRanking:
    """Systems ranked by one metric, the best first."""

    metric: str
    better: str  # higher or lower
    unit: str | None = None
    n_tasks: int  # that all have; of independent samples, those of all systems together
    paired: bool = True  # whether systems are compared task by task
    confidence: float
    interval: str | None  # how the interval of one system is made
    systems: tuple[RankedSystem, ...]
    pairs: tuple[RankedPair, ...]
    tasks_by: str | None = None  # the field whose values have a column each

    @property
    def best(self) -> tuple[RankedSystem, ...]:
        """The first system, and those that cannot be told apart from it."""
        first = self.systems[0]
        worse = {
            pair.b if pair.a == first.name else pair.a
            for pair in self.pairs
            if first.name in (pair.a, pair.b) and self.is_apart(pair)
        }
        return tuple(each for each in self.systems if each.name not in worse)

    def is_apart(self, pair: RankedPair) -> bool:
        """Say whether the test tells two systems apart."""
        return pair.p_adjusted is not None and pair.p_adjusted < 1 - self.confidence

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the ranking by one metric."""
        return {
            "metric": self.metric,
            "better": self.better,
            "n_tasks": self.n_tasks,
            "paired": self.paired,
            "interval": self.interval,
            "best": [each.name for each in self.best],
            **({} if self.tasks_by is None else {"tasks_by": self.tasks_by}),
            "systems": to_plain(self.systems),
            "pairs": to_plain(self.pairs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Printed, Tabular):
    """Everything `calipers rank` found. Prints as a table, shows as HTML in a notebook."""

    metrics: tuple[MetricRanking, ...]
    by: tuple[str, ...]
    confidence: float
    seed: int
    notices: tuple[str, ...] = ()

    @property
    def systems(self) -> tuple[RankedSystem, ...]:
        """The systems by the first metric, the best first."""
        return self.metrics[0].systems

    @property
    def pairs(self) -> tuple[RankedPair, ...]:
        """All pairs of systems by the first metric."""
        return self.metrics[0].pairs

    def __getitem__(self, metric: str) -> MetricRanking:
        """Return the ranking by a metric."""
        for each in self.metrics:
            if each.metric == metric:
                return each
        raise KeyError(metric)

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON, as Python values."""
        first, *others = (each.to_dict() for each in self.metrics)
        further = {"further": others, "notices": list(self.notices)}
        return {
            "schema": SCHEMA,
            "version": __version__,
            "seed": self.seed,
            "confidence": self.confidence,
            "by": list(self.by),
            **first,
            **{name: value for name, value in further.items() if value},
        }

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row per metric and system."""
        for ranked in self.metrics:
            for each in ranked.systems:
                found = each.to_dict()
                strength = found.get("bradley_terry", {})
                yield {
                    **each.by,
                    "metric": ranked.metric,
                    **keep_scalars(found),
                    **{f"strength_{name}": value for name, value in keep_scalars(strength).items()},
                    **{f"{name}_value": part.value for name, part in each.tasks.items()},
                }

    def charts(self) -> dict[str, Chart]:
        """Return the ranked systems with their intervals as charts, `rank_METRIC` each."""
        require_figures("charts")
        from calipers.reports.charts.ranking import draw_systems  # noqa: PLC0415

        return {
            f"rank_{_UNSAFE.sub('_', each.metric).strip('_')}": draw_systems(each)
            for each in self.metrics
        }

    def save_figures(self, folder: str | Path) -> None:
        """Write each chart as SVG, PDF and PNG."""
        from calipers.reports.charts.chart import save_charts  # noqa: PLC0415

        save_charts(self.charts(), Path(folder))
