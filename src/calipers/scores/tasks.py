"""Values per task: the measured rows of some data, and a metric's value for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import polars as pl

from calipers.engines.plan import FAILED, Plan, name_presence
from calipers.engines.reading import measure_source, pick_engine
from calipers.engines.store import complete_columns, drop_empty_columns
from calipers.engines.totals import sum_keys
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Aggregate, Feature, Rank, is_met
from calipers.metrics.own.statistics import settle
from calipers.records.sources import open_sources
from calipers.scores.keys import split_natural
from calipers.scores.options import Options
from calipers.scores.score import make_plan
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

VALUE = "value"
SQUARES = "squares"  # of the runs of a task, around their mean
SOURCE = "_source"  # the label of the source that a row comes from
TELL_SYSTEMS_APART = ("model", "tier")


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """Every row of some data with its features, in memory, and where it came from."""

    name: str
    plan: Plan
    rows: pl.DataFrame  # by group and task
    skipped: int = 0  # bad rows that were left out
    numbered: bool = False  # whether rows have no id, so that each is a task of its own

    @property
    def records(self) -> int:
        """How many rows there are."""
        return self.rows.height

    @property
    def errors(self) -> int:
        """How many of them are calls that failed."""
        return int(self.rows[FAILED].sum())

    @cached_property
    def present(self) -> frozenset[str]:
        """The fields that any row has."""
        return frozenset(name for name in self.plan.watched if self.rows[name_presence(name)].any())

    @cached_property
    def is_one_per_task(self) -> bool:
        """Whether no task has a second row."""
        again = pl.all_horizontal(pl.col(GROUP, TASK) == pl.col(GROUP, TASK).shift())
        return not self.rows.select(again.any()).item()

    def sum_keys(self, aggregate: Aggregate) -> pl.DataFrame:
        """Return the totals per key; metrics that count alike, as pass@k do, share them."""
        alike = (aggregate.keys, aggregate.where, id(aggregate.totals))
        if alike not in self._sums:
            rows = self.rows.lazy().filter(~pl.col(FAILED))
            # In memory and in order: the streaming engine would add numbers up in any order.
            table = sum_keys(rows, aggregate)
            self._sums[alike] = table.collect(engine="in-memory").sort(GROUP, *aggregate.keys)
        return self._sums[alike]

    @cached_property
    def _sums(self) -> dict[Any, pl.DataFrame]:
        return {}

    def has_fields(self, metric: Metric) -> bool:
        """Say whether any row has the fields that the metric needs."""
        found = self.present | self.plan.also_present
        return all(is_met(need, found.__contains__) for need in metric.needs)


def read_tasks(
    data: Any,
    options: Options,
    *,
    keep: tuple[str, ...] = (),
    paired: bool = True,
    labels: Sequence[str] = (),
) -> TaskRows:
    """Read and measure all rows; `keep` names record fields that stay beside the features.

    Where nothing is to be paired and no row has an id, each row is a task of its own. With a label
    for each source, a row has that of its own as `SOURCE`.
    """
    sources = open_sources(data)
    plan = make_plan(sources, options)
    columns = list(dict.fromkeys((*plan.schema, "id", *keep)))
    wanted = plan.list_wanted(options.map, *keep)
    schema = {**dict.fromkeys(keep, pl.Null()), **plan.schema, "id": pl.String()}
    frames = [pl.DataFrame(schema={name: schema[name] for name in (GROUP, TASK, "id")})]
    skipped = 0
    engine = pick_engine(options.engine, sources)
    for place, source in enumerate(sources):
        label = [pl.lit(labels[place]).alias(SOURCE)] if labels else []
        for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
            if batch.bad and options.on_bad == "stop":
                raise batch.bad[0].make_error()
            skipped += len(batch.bad)
            schema |= {each: batch.rows.schema[each] for each in keep}
            frames.append(drop_empty_columns(batch.rows).with_columns(label))
    rows = pl.concat(frames, how="diagonal_relaxed")
    name = ", ".join(source.name for source in sources)
    lacking = rows["id"].null_count()
    numbered = bool(lacking) and not paired and lacking == rows.height
    if numbered:
        number = pl.int_range(pl.len(), dtype=pl.Int64)
        rows = rows.with_columns(number.alias(TASK), number.cast(pl.String).alias("id"))
    elif lacking:
        unpaired = "; compare and rank take records without ids as independent samples: --unpaired"
        raise DataError(
            f"{name}: {lacking} of {rows.height} records have no id to pair by",
            fix="name the field that identifies tasks: --map id=NAME"
            f"{unpaired if lacking == rows.height else ''}",
        )
    order = (TASK,) if rows[GROUP].n_unique() <= 1 else (GROUP, TASK)
    in_order = rows.sort(*order, maintain_order=True)
    named = dict.fromkeys((*columns, *in_order.columns))
    whole = complete_columns(in_order, list(named), schema)  # nulls take no room
    return TaskRows(name=name, plan=plan, rows=whole, skipped=skipped, numbered=numbered)


def settle_metric(metric: Metric, sides: Sequence[TaskRows]) -> Metric:
    """Return the metric as a share if the values of all sides are 0 or 1, else unchanged."""
    if metric.yes_or_no is None:
        return metric
    [feature] = metric.features
    values = pl.concat(side.rows[feature.name] for side in sides).drop_nulls()
    return settle(metric, float((~values.is_in([0.0, 1.0])).sum()))


def split_rows(whole: TaskRows, field: str) -> list[TaskRows]:
    """Split the rows by a field, in the order of its values; rows without one are in no part."""
    groups = whole.rows.drop_nulls(field).partition_by(field, as_dict=True, maintain_order=True)
    return [
        replace(whole, name=_format_value(key), rows=groups[key,], skipped=0)
        for key in sorted((key for (key,) in groups), key=_sort_key)
    ]


def _sort_key(key: Any) -> Any:
    return split_natural(key) if isinstance(key, str) else key


def _format_value(value: Any) -> str:
    """Return a field's value as in JSON, whole numbers without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def note_pooled(found: TaskRows) -> Iterator[str]:
    """Say where several systems count as runs of a task, which is rarely meant."""
    names = [name for name in TELL_SYSTEMS_APART if name in found.rows.columns]
    of_tasks = found.rows.group_by(TASK).agg(pl.col(names).drop_nulls().n_unique())
    for name in names:
        systems = max(of_tasks[name].to_list(), default=0)
        if systems > 1:
            yield (
                f"{found.name}: up to {systems} {name}s of a task count as its runs; "
                f"--by {name} keeps them apart"
            )


def select_counted(found: TaskRows, metric: Metric) -> pl.DataFrame:
    """Return the rows that the metric counts, with the columns that it reads."""
    own = replace(found.plan, metrics=(metric,)).schema
    rows = found.rows.lazy().select(name for name in own if name in found.rows.columns)
    rows = rows.filter(~pl.col(FAILED))
    aggregate = metric.aggregate
    if isinstance(aggregate, Rank):
        rows = rows.filter(pl.col(aggregate.feature.name).is_not_null())
    elif aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    return rows.collect(engine="in-memory")


def measure_tasks(found: TaskRows, metric: Metric) -> pl.DataFrame | None:
    """Return a row per group and task with the metric's value and the number of its rows.

    Of a mean over rows also the `SQUARES` of a task's rows around their mean. None for a metric
    that is no mean over rows or tasks: an entropy, say, has no value per task.
    """
    averaged = metric.averaged
    if averaged is None:
        return None
    value = pl.col(averaged.name if isinstance(averaged, Feature) else averaged).cast(pl.Float64)
    value = (1 - value if metric.complement else value).alias(VALUE)
    if isinstance(averaged, Feature):
        rows = found.rows.select(GROUP, TASK, averaged.name).drop_nulls(averaged.name)
        if found.is_one_per_task:
            once = pl.lit(1, pl.Int64).alias(RUNS), pl.lit(0.0).alias(SQUARES)
            return rows.select(GROUP, TASK, value, *once)
        per = rows.group_by(GROUP, TASK).agg(
            value.mean(),
            pl.len().cast(pl.Int64).alias(RUNS),
            (value.var(ddof=0) * pl.len()).alias(SQUARES),
        )
    else:
        aggregate = metric.aggregate
        assert isinstance(aggregate, Aggregate)
        values = next(each for each in aggregate.tasks if averaged in each.values)
        table = found.sum_keys(aggregate)
        tasks = values.step(table.lazy())
        per = tasks.select(GROUP, TASK, value, RUNS).drop_nulls(VALUE).collect(engine="in-memory")
    return per.sort(GROUP, TASK)
