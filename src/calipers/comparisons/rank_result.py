"""A ranking: systems from the best down, what is known of each rank, and every pair.

Values and pairs come with evidence that holds for all systems at once, and that evidence gives the
ranks and the letters shared by systems that cannot be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.comparisons.ranked_pairs import (
    RankedPair,
    RankedPairs,
    dump_with_pairs,
    order_pairs,
)
from calipers.comparisons.ranked_systems import Systems
from calipers.metrics import Metric
from calipers.metrics.declare.interval_methods import Wilson
from calipers.scores.options import Options
from calipers.scores.result import require_figures
from calipers.statistics import special
from calipers.statistics.all_pairs import PairColumns
from calipers.statistics.clusters import Floats, Labels
from calipers.statistics.intervals import t_quantile
from calipers.statistics.ranking import (
    MOST_LETTERS,
    MaxT,
    mean_interval,
    pair_deviations,
    rank_bounds,
    ranks,
    share_letters,
)
from calipers.support.printing import Printed, Tabular, keep_scalars
from calipers.support.strict_json import to_plain
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.reports.charts.chart import Chart

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
    group: str | None  # letters; systems that share one cannot be told apart
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
    pairs: RankedPairs  # in the order of the systems
    tasks_by: str | None = None  # the field whose values have a column each
    group_reason: str | None = None  # why the systems have no letters

    @property
    def best(self) -> tuple[RankedSystem, ...]:
        """The first system, and those that cannot be told apart from it."""
        worse = {
            pair.b
            for pair in self.pairs[: len(self.systems) - 1]  # those of the first
            if self.is_apart(pair)
        }
        return tuple(each for each in self.systems if each.name not in worse)

    def is_apart(self, pair: RankedPair) -> bool:
        """Say whether the test tells two systems apart."""
        return pair.p_adjusted is not None and pair.p_adjusted < 1 - self.confidence

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the ranking by one metric."""
        return self.describe() | {"pairs": self.pairs.to_dicts()}

    def describe(self) -> dict[str, Any]:
        """Return the JSON, with the pairs as they are."""
        return {
            "metric": self.metric,
            "better": self.better,
            "n_tasks": self.n_tasks,
            "paired": self.paired,
            "interval": self.interval,
            "best": [each.name for each in self.best],
            **({} if self.tasks_by is None else {"tasks_by": self.tasks_by}),
            **({} if self.group_reason is None else {"group_reason": self.group_reason}),
            "systems": to_plain(self.systems),
            "pairs": self.pairs,
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
    def pairs(self) -> RankedPairs:
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
        return self._describe([each.to_dict() for each in self.metrics])

    def _describe(self, metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the JSON, given that of each metric."""
        first, *others = metrics
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

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return strict JSON; equal input and seed give equal bytes."""
        whole = self._describe([each.describe() for each in self.metrics])
        return "".join(dump_with_pairs(whole, indent=indent))

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
        from calipers.reports.charts.forest import draw_systems  # noqa: PLC0415

        return {
            f"rank_{_UNSAFE.sub('_', each.metric).strip('_')}": draw_systems(each)
            for each in self.metrics
        }

    def save_figures(self, folder: str | Path) -> None:
        """Write each chart as SVG, PDF and PNG."""
        from calipers.reports.charts.chart import save_charts  # noqa: PLC0415

        save_charts(self.charts(), Path(folder))


_ONE_UNIT = "a single task or cluster does not show how much others vary"
_TOO_MANY_SETS = (
    f"more than {MOST_LETTERS:,} sets of systems cannot be told apart, which letters do not show; "
    "rank intervals and pairs do"
)
_NO_SPREAD = "nothing varies from task to task, so the role of chance is unknown"


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """A value per system, and the comparison of every pair, by the systems' positions."""

    values: Sequence[RankedValue]
    pairs: PairColumns
    interval: str
    n_tasks: int | Sequence[int]  # the same for all systems, or of each


def estimate_mean(
    values: Floats, metric: Metric, confidence: float, clusters: Labels | None = None
) -> RankedValue:
    """Return the mean of a value per task, with the interval that `score` gives it."""
    around = mean_interval(
        values,
        ends=metric.range,
        is_share=isinstance(metric.interval, Wilson),
        confidence=confidence,
        clusters=clusters,
    )
    mean = float(values.mean())
    return RankedValue(value=mean, low=around.low, high=around.high, reason=around.reason)


def estimate_all(
    samples: Iterable[tuple[Floats, Labels | None]],
    covariance: Floats,
    compare: Callable[..., PairColumns],
    metric: Metric,
    options: Options,
    *,
    n_tasks: int | Sequence[int],
) -> Estimates:
    """Return the mean of each system and the difference of each pair, with adjusted evidence.

    `samples` are each system's values, one per task, with the clusters of these tasks; `covariance`
    is that of their means. The single intervals and tests are those of `score` and `compare`; the
    confidence that `compare` is given is that at which all hold together.
    """
    level = MaxT.of_each(covariance, seed=options.seed).level(options.confidence)
    together = MaxT.of_pairs(covariance, seed=options.seed)
    pairs = compare(confidence=together.level(options.confidence))
    pairs.fill(slice(None), p_adjusted=together.adjust_each(pairs.p_value))
    return Estimates(
        values=[estimate_mean(values, metric, level, clusters) for values, clusters in samples],
        pairs=pairs,
        interval=metric.interval.name,
        n_tasks=n_tasks,
    )


def estimate_values(
    values: Floats,
    covariance: Floats,
    units: int,
    options: Options,
    *,
    ends: tuple[float, float] = (-inf, inf),
) -> list[RankedValue]:
    """Return each value with an interval that holds for all at once, on so many tasks or clusters.

    No bound lies beyond `ends`.
    """
    level = MaxT.of_each(covariance, seed=options.seed).level(options.confidence)
    found = []
    for value, error in zip(values.tolist(), np.sqrt(np.diag(covariance)).tolist(), strict=True):
        if (reason := _explain_none(error, units)) is not None:
            found.append(RankedValue(value=value, reason=reason))
            continue
        reach = t_quantile(units, level) * error
        low, high = max(ends[0], value - reach), min(ends[1], value + reach)
        found.append(RankedValue(value=value, low=low, high=high))
    return found


def compare_values(
    values: Floats, covariance: Floats, units: int, options: Options, *, test: str
) -> PairColumns:
    """Return the difference of each pair with its evidence, adjusted for all pairs."""
    together = MaxT.of_pairs(covariance, seed=options.seed)
    level = together.level(options.confidence)
    one, other = np.triu_indices(values.size, 1)
    errors = pair_deviations(covariance)[one, other]
    found = PairColumns.of_systems(values.size)
    difference = values[one] - values[other]
    found.fill(slice(None), difference=difference, test=test)
    if units <= 1:
        found.fill(slice(None), reason=_ONE_UNIT)
        return found
    known = errors > 0
    found.fill(~known, reason=_NO_SPREAD)
    difference, error = difference[known], errors[known]
    reach = t_quantile(units, level) * error
    p_values = [
        2 * special.stdtr(units - 1, -each) for each in (np.abs(difference) / error).tolist()
    ]
    found.fill(known, low=difference - reach, high=difference + reach, p_value=p_values)
    found.fill(slice(None), p_adjusted=together.adjust_each(found.p_value))
    return found


def _explain_none(error: float, units: int) -> str | None:
    """Say why there is no interval, or None."""
    if units <= 1:
        return _ONE_UNIT
    return None if error > 0 else _NO_SPREAD


def rank_estimates(
    systems: Systems, metric: Metric, texts: Sequence[str], estimates: Estimates, options: Options
) -> MetricRanking:
    """Return the systems that have a value, by their texts in `GROUP`, from the best down."""
    return order_systems(
        estimates,
        by=[systems.keys[text] for text in texts],
        names=[systems.names[text] for text in texts],
        metric=metric.name,
        unit=metric.unit,
        better=metric.better or "higher",
        confidence=options.confidence,
    )


def order_systems(
    estimates: Estimates,
    *,
    by: Sequence[Mapping[str, object]],
    names: Sequence[str],
    metric: str,
    better: str,
    confidence: float,
    unit: str | None = None,
) -> MetricRanking:
    """Return the ranking: equal values in the order given, pairs in the order of the systems."""
    values = np.array([each.value for each in estimates.values], dtype=np.float64)
    higher = better == "higher"
    order = np.argsort(-values if higher else values, kind="stable").tolist()
    pairs = order_pairs(estimates.pairs, order, [names[one] for one in order])
    apart = pairs.find_apart(1 - confidence, higher=higher)
    low, high = rank_bounds(apart)
    counted = estimates.n_tasks
    shared = isinstance(counted, int)
    tasks = [counted] * len(names) if isinstance(counted, int) else list(counted)
    letters = share_letters(apart | apart.T)
    at = ranks(values[order], higher_is_better=higher)
    return MetricRanking(
        metric=metric,
        better=better,
        unit=unit,
        n_tasks=tasks[0] if shared else sum(tasks),
        paired=shared,
        confidence=confidence,
        interval=estimates.interval,
        systems=tuple(
            RankedSystem(
                by=dict(by[one]),
                name=names[one],
                value=estimates.values[one].value,
                low=estimates.values[one].low,
                high=estimates.values[one].high,
                reason=estimates.values[one].reason,
                rank=at[place],
                rank_low=low[place],
                rank_high=high[place],
                group=None if letters is None else letters[place],
                n_tasks=tasks[one],
            )
            for place, one in enumerate(order)
        ),
        pairs=pairs,
        group_reason=_TOO_MANY_SETS if letters is None else None,
    )
