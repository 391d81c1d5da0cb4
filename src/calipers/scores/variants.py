"""Configurations of a system or tier: which is best, what varies, intervals where tasks are few.

A configuration is a variant, of a model and a tier where records have several. With fewer than five
tasks, an interval over tasks says next to nothing: it is then over the cells task × variant, and
holds for these tasks only. The best of many configurations was chosen for its value, so its
interval is one that holds for all of them at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from calipers.engines.plan import FAILED, Plan
from calipers.engines.read_rows import measure_source, pick_engine
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, TASK, Feature
from calipers.metrics.declare.interval_methods import Wilson, read_clusters
from calipers.records.batch import Source
from calipers.records.fields import VARIANT
from calipers.records.logs.log import Log
from calipers.records.readers.tables import RowList
from calipers.scores.options import Options
from calipers.scores.result import BestVariant, Group, Measured, VarianceSplit, Variants
from calipers.statistics.crossed import split_crossed
from calipers.statistics.ranking import fixed_interval, mean_interval

if TYPE_CHECKING:
    from calipers.engines.outcome import Outcome

FEW_TASKS = 5  # from which on an interval is over tasks
SCOPE = "tasks at hand"
_CONFIGURATION = ("model", "tier", VARIANT)
_MAIN = ("composite_score", "accuracy", "pass_rate", "agent_composite")
_CONFIG = "_configuration"
_MOST_ROWS = 5_000_000  # that are held to tell configurations apart


def has_few_tasks(outcome: Outcome, plan: Plan) -> bool:
    """Say whether a group has so few tasks that its intervals are over cells, if it can."""
    return any(
        0 < _count_tasks(metric, totals) < FEW_TASKS
        for metric in plan.metrics
        for totals in outcome.groups.values()
    )


def _count_tasks(metric: Metric, totals: Mapping[str, float]) -> int:
    if metric.influence is None or not totals.get(metric.rows):
        return 0
    return max(1, int(read_clusters(metric.influence.name, totals).count))


def add_cell_intervals(
    groups: Mapping[str, Group],
    outcome: Outcome,
    of_cells: Mapping[str, Group],
    cells: Outcome,
    plan: Plan,
) -> dict[str, Group]:
    """Return the groups, those of few tasks with the intervals that cells task × variant give."""
    metrics = {metric.name: metric for metric in plan.metrics}

    def bound(text: str, name: str, each: Measured) -> Measured:
        if name not in metrics or text not in of_cells:
            return each
        tasks = _count_tasks(metrics[name], outcome.groups[text])
        if not 0 < tasks < min(FEW_TASKS, _count_tasks(metrics[name], cells.groups[text])):
            return each
        return _take_interval(each, of_cells[text].metrics.get(name))

    return {
        text: replace(
            group, metrics={name: bound(text, name, each) for name, each in group.metrics.items()}
        )
        for text, group in groups.items()
    }


def _take_interval(each: Measured, cells: Measured | None) -> Measured:
    """Return a value with the interval over cells, where that has the same value and a bound."""
    if each.value is None or cells is None or cells.value is None or cells.interval is None:
        return each
    if cells.scope is not None or not isclose(each.value, cells.value, rel_tol=1e-9, abs_tol=1e-12):
        return each  # one cell, or a value that is of tasks
    return replace(
        each,
        low=cells.low,
        high=cells.high,
        stderr=cells.stderr,
        interval=cells.interval,
        interval_reason=cells.interval_reason,
        scope=SCOPE,
        worth=cells.worth,
    )


_MANY_LOGS, _MOST_GATHERED = 16, 100_000


def gather_logs(sources: Sequence[Source], outcome: Outcome) -> Sequence[Source]:
    """Return the sources; many small logs as one list, quicker to read again."""
    rows = sum(reading.rows for reading in outcome.readings)
    logs = [source for source in sources if isinstance(source, Log) and source.path is not None]
    if len(logs) < len(sources) or len(logs) < _MANY_LOGS or rows > _MOST_GATHERED:
        return sources
    records = (record for log in logs for record, _ in log.format.records(Path(str(log.path)), ()))
    return [RowList([record for record in records if record is not None], "<logs>")]


def measure_variants(
    sources: Sequence[Source], groups: Sequence[Group], plan: Plan, options: Options
) -> Variants | None:
    """Return which configuration is best, and where the variance comes from; None without any."""
    metric = _choose_metric(groups, plan)
    if metric is None or not isinstance(metric.averaged, Feature):
        return None
    rows = _read_rows(sources, metric.averaged, plan, options)
    if rows is None or rows[VARIANT].drop_nulls().n_unique() < 2:  # noqa: PLR2004 (to choose from)
        return None
    is_by_variant = VARIANT in plan.by
    best = _find_best(rows, metric, plan, options) if is_by_variant else None
    splits = tuple(_split_groups(rows, metric, plan))
    return None if best is None and not splits else Variants(best=best, variance=splits)


def _choose_metric(groups: Sequence[Group], plan: Plan) -> Metric | None:
    """Return the metric by which configurations are told apart: the main one that has values."""
    valued = {n for group in groups for n, each in group.metrics.items() if each.value is not None}
    metrics = {metric.name: metric for metric in plan.metrics if metric.name in valued}
    directed = [
        metric
        for metric in metrics.values()
        if metric.better is not None and isinstance(metric.averaged, Feature)
    ]
    main = (metrics[name] for name in _MAIN if name in metrics)
    return next(main, directed[0] if directed else None)


_VALUE = "_value"


def _read_rows(
    sources: Sequence[Source], value: Feature, plan: Plan, options: Options
) -> pl.DataFrame | None:
    """Return the value, the task and the configuration of each row; None with too many rows."""
    fields = list(dict.fromkeys((*_CONFIGURATION, "id")))
    wanted = plan.list_wanted(options.map, *fields)
    columns = list(dict.fromkeys((GROUP, TASK, FAILED, value.name, *fields)))
    engine = pick_engine(options.engine, sources)
    frames: list[pl.DataFrame] = []
    count = 0
    for source in sources:
        for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
            rows = batch.rows.filter(~pl.col(FAILED) & pl.col(value.name).is_not_null())
            frames.append(
                rows.select(
                    pl.col(GROUP),
                    pl.col("id").cast(pl.String),
                    pl.col(value.name).cast(pl.Float64).alias(_VALUE),
                    *(pl.col(name).cast(pl.String) for name in _CONFIGURATION),
                )
            )
            count += frames[-1].height
            if count > _MOST_ROWS:
                return None
    if not frames:
        return None
    rows = pl.concat(frames).filter(pl.col("id").is_not_null())
    return rows.with_columns(pl.struct(_CONFIGURATION).rank("dense").alias(_CONFIG))


def _find_best(
    rows: pl.DataFrame, metric: Metric, plan: Plan, options: Options
) -> BestVariant | None:
    """Return the best group of those that are by variant, and which it cannot be told from."""
    parts = {
        text: part
        for (text,), part in rows.partition_by(GROUP, as_dict=True).items()
        if part.height
    }
    if len(parts) < 2:  # noqa: PLR2004
        return None
    confidence = 1 - (1 - options.confidence) / len(parts)
    is_higher = metric.better != "lower"
    found = {text: _bound_mean(part, metric, confidence) for text, part in parts.items()}
    keys = {text: {name: json.loads(text).get(name) for name in plan.by} for text in parts}
    best = max(found, key=lambda text: found[text].value * (1 if is_higher else -1))
    least, most = found[best].low, found[best].high
    edge = least if is_higher else most

    def overlaps(other: ConfigurationMean) -> bool:
        reach = other.high if is_higher else other.low
        if edge is None or reach is None:
            return True
        return reach >= edge if is_higher else reach <= edge

    alike = [keys[text] for text, each in found.items() if text != best and overlaps(each)]
    return BestVariant(
        metric=metric.name,
        by=keys[best],
        value=found[best].value,
        low=least,
        high=most,
        among=len(parts),
        alike=tuple(alike),
        tasks=found[best].tasks,
        scope=SCOPE if found[best].is_of_runs else None,
        reason=found[best].reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationMean:
    """A configuration's mean, with an interval that holds for all configurations at once."""

    value: float
    tasks: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    is_of_runs: bool = False  # of these tasks only


def _bound_mean(part: pl.DataFrame, metric: Metric, confidence: float) -> ConfigurationMean:
    """Return the mean over runs; over five tasks or more tasks vary, over fewer only their runs."""
    by_task = part.group_by("id").agg(
        mean=pl.col(_VALUE).mean(), runs=pl.len(), spread=pl.col(_VALUE).var()
    )
    value, tasks = float(np.mean(part[_VALUE].to_numpy())), by_task.height
    low, high = metric.range
    if tasks >= FEW_TASKS:
        around = mean_interval(
            by_task.sort("id")["mean"].to_numpy(),
            ends=(low, high),
            is_share=isinstance(metric.interval, Wilson),
            confidence=confidence,
        )
        return ConfigurationMean(
            value=value,
            tasks=tasks,
            low=_clip(around.low, low, high),
            high=_clip(around.high, low, high),
            reason=around.reason,
        )
    runs = by_task["runs"].to_numpy()
    if runs.min() < 2:  # noqa: PLR2004 (to show noise)
        reason = (
            f"{tasks} tasks are too few for an interval over tasks, and a task with one run shows "
            "no noise"
        )
        return ConfigurationMean(value=value, tasks=tasks, reason=reason)
    variance = float((by_task["spread"].to_numpy() * runs).sum()) / float(runs.sum()) ** 2
    of_runs = fixed_interval(
        value,
        variance,
        rows=int(runs.sum()),
        freedom=int((runs - 1).sum()),
        bounds=(low, high) if isfinite(high - low) else None,
        confidence=confidence,
    )
    return ConfigurationMean(
        value=value, tasks=tasks, low=of_runs.low, high=of_runs.high, is_of_runs=True
    )


def _clip(bound: float | None, low: float, high: float) -> float | None:
    return None if bound is None else float(min(high, max(low, bound)))


def _split_groups(rows: pl.DataFrame, metric: Metric, plan: Plan) -> Iterator[VarianceSplit]:
    """Yield where the variance of a run comes from, in each group of the fields but the variant."""
    by = tuple(name for name in plan.by if name != VARIANT)
    keyed = {
        text: {name: json.loads(text).get(name) for name in by} for text in rows[GROUP].unique()
    }
    texts = {text: json.dumps(key, sort_keys=True) for text, key in keyed.items()}
    told = rows.with_columns(pl.col(GROUP).replace_strict(texts).alias("_family"))
    for (family,), part in sorted(told.partition_by("_family", as_dict=True).items()):
        found = split_crossed(part[_VALUE].to_numpy(), _code(part["id"]), _code(part[_CONFIG]))
        if found is None:
            continue
        yield VarianceSplit(
            by=json.loads(str(family)),
            metric=metric.name,
            task=found.task / found.total,
            variant=found.variant / found.total,
            together=None if found.together is None else found.together / found.total,
            run=None if found.run is None else found.run / found.total,
            rest=None if found.rest is None else found.rest / found.total,
            tasks=found.tasks,
            variants=found.variants,
            runs=found.runs,
        )


def _code(labels: pl.Series) -> Any:
    return np.asarray(labels.rank("dense").to_numpy())
