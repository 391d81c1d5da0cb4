"""What each task scored: the measured rows of some data, and a metric's value per task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl

from calipers.engines.plan import FAILED, Plan, has
from calipers.engines.polars import measured_batches
from calipers.engines.totals import keyed
from calipers.errors import DataError
from calipers.metrics import Metric
from calipers.metrics.declaration import GROUP, RUNS, TASK, Aggregate, Feature, is_met
from calipers.scoring import Options
from calipers.sources import Wanted, open_sources

VALUE = "value"


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """Every row of some data with its features, in memory, and where it came from."""

    name: str
    plan: Plan
    rows: pl.DataFrame

    @property
    def records(self) -> int:
        """How many rows there are."""
        return self.rows.height

    @property
    def errors(self) -> int:
        """How many of them are calls that failed."""
        return int(self.rows[FAILED].sum())

    def measures(self, metric: Metric) -> bool:
        """Say whether any row has the fields that the metric needs."""
        return all(is_met(need, lambda name: self.rows[has(name)].any()) for need in metric.needs)


def read_tasks(data: Any, options: Options, *, keep: tuple[str, ...] = ()) -> TaskRows:
    """Read and measure all rows; `keep` names record fields that stay beside the features."""
    plan = options.plan()
    columns = [*plan.schema, "id", *keep]
    sources = open_sources(data)
    wanted = Wanted(tuple(dict.fromkeys((*plan.fields, *keep))), options.renames)
    frames = [pl.DataFrame(schema={**plan.schema, "id": pl.String()})]
    for source in sources:
        for batch in measured_batches(source.chunks(wanted), plan, columns=columns):
            if batch.bad and options.on_bad == "stop":
                raise batch.bad[0].error()
            frames.append(batch.rows)
    rows = pl.concat(frames, how="diagonal_relaxed")
    name = ", ".join(source.name for source in sources)
    if lacking := rows["id"].null_count():
        raise DataError(
            f"{name}: {lacking} of {rows.height} records have no id to pair by",
            fix="name the field that tells tasks apart: --map id=NAME",
        )
    return TaskRows(name=name, plan=plan, rows=rows)


def per_task(found: TaskRows, metric: Metric) -> pl.DataFrame | None:
    """A row per group and task with the metric's value and the number of its rows.

    None for a metric that is no mean over rows or tasks: an entropy, say, has no value per task.
    """
    averaged = metric.averaged
    if averaged is None:
        return None
    value = pl.col(averaged.name if isinstance(averaged, Feature) else averaged).cast(pl.Float64)
    value = (1 - value if metric.complement else value).alias(VALUE)
    if isinstance(averaged, Feature):
        rows = found.rows.filter(pl.col(averaged.name).is_not_null())
        per = rows.group_by(GROUP, TASK).agg(value.mean(), pl.len().cast(pl.Int64).alias(RUNS))
    else:
        aggregate = metric.aggregate
        assert isinstance(aggregate, Aggregate)
        values = next(each for each in aggregate.tasks if averaged in each.values)
        rows = found.rows.filter(~pl.col(FAILED))
        table = keyed(nw.from_native(rows.lazy()), aggregate)
        tasks: pl.LazyFrame = values.step(table).to_native()
        per = tasks.select(GROUP, TASK, value, RUNS).collect()
    return per.sort(GROUP, TASK)
