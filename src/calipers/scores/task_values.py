"""Values per task: the measured rows of some data, and a metric's value for each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from calipers.engines.plan import FAILED, IDENTITY, Plan, name_kept, name_presence
from calipers.engines.read_rows import measure_source, pick_engine
from calipers.engines.store import complete_columns, drop_empty_columns
from calipers.engines.totals import sum_keys
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, RUNS, TASK, Aggregate, Feature, Rank, is_met
from calipers.metrics.user_defined import resolve_share
from calipers.records.batch import count_bad, refuse_bad
from calipers.records.fields import FIELDS
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.score import make_plan
from calipers.support.errors import DataError
from calipers.support.names import split_natural

VALUE = "value"
SQUARES = "squares"  # of the runs of a task, around their mean
SOURCE = "_source"  # the label of the source that a row comes from
_NAMED = 3  # files, in a message
_MANY_ROWS = 100_000
TELL_SYSTEMS_APART = ("model", "tier", "variant")


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """Every row of some data with its features, in memory, and where it came from."""

    name: str
    plan: Plan
    rows: pl.DataFrame  # by group and task
    skipped: int = 0  # bad rows that were left out
    nulled: int = 0  # values outside their range that were made null
    numbered: bool = False  # whether rows have no id, so that each is a task of its own

    @property
    def records(self) -> int:
        """The number of rows."""
        return self.rows.height

    @property
    def errors(self) -> int:
        """The number of rows that are failed calls."""
        return int(self.rows[FAILED].sum())

    @cached_property
    def present(self) -> frozenset[str]:
        """The fields that any row has."""
        return frozenset(name for name in self.plan.watched if self.rows[name_presence(name)].any())

    @cached_property
    def is_one_per_task(self) -> bool:
        """Return True if no task has a second row."""
        again = pl.all_horizontal(pl.col(GROUP, TASK) == pl.col(GROUP, TASK).shift())
        return not self.rows.select(again.any()).item()

    def sum_keys(self, aggregate: Aggregate) -> pl.DataFrame:
        """Return the totals per key; metrics that count alike, as pass@k do, share them."""
        alike = (aggregate.keys, aggregate.where, id(aggregate.totals))
        if alike not in self._sums:
            rows = self.rows.lazy().filter(~pl.col(FAILED))
            # In memory and in order: the streaming engine would add numbers up in any order.
            # Systems that are ranked share their tasks.
            table = sum_keys(rows, aggregate, (GROUP, *aggregate.keys))
            self._sums[alike] = table.collect(engine="in-memory").sort(GROUP, *aggregate.keys)
        return self._sums[alike]

    def forget_sums(self) -> None:
        """Drop the tables of totals: of millions of tasks each takes as much as the rows."""
        self._sums.clear()

    @cached_property
    def _sums(self) -> dict[Any, pl.DataFrame]:
        return {}

    def has_fields(self, metric: Metric) -> bool:
        """Return True if any row has the fields that the metric needs."""
        fields = self.present | self.plan.also_present
        return all(is_met(need, fields.__contains__) for need in metric.needs)


def name_kept_field(name: str) -> str:
    """Return the column of a field that stays beside the features, which may have its name."""
    return name if name in FIELDS else name_kept(name)


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def read_task_rows(
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
    plan = replace(plan, kept=tuple(name for name in keep if name not in FIELDS))
    kept = [name_kept_field(name) for name in keep]
    columns = list(dict.fromkeys((*plan.schema, "id", *kept)))
    wanted = plan.list_wanted(options.map, *keep)
    schema = {**dict.fromkeys(kept, pl.Null()), **plan.schema, "id": pl.String()}
    frames = [pl.DataFrame(schema={name: schema[name] for name in (GROUP, TASK, "id")})]
    skipped = nulled = 0
    engine = pick_engine(options.engine, sources)
    for place, source in enumerate(sources):
        label = [pl.lit(labels[place]).alias(SOURCE)] if labels else []
        for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
            if options.on_bad != "skip":
                refuse_bad(batch.bad)
            left_out, made_null = count_bad(batch.bad)
            skipped += left_out
            nulled += made_null
            schema |= {name: batch.rows.schema[name] for name in kept}
            frames.append(drop_empty_columns(batch.rows).with_columns(label))
    rows = pl.concat(frames, how="diagonal_relaxed")
    frames.clear()
    rows = hold_single_values(rows.drop(IDENTITY, strict=False))  # of repeated calls: for a score
    name = _join_names([source.name for source in sources])
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
    order = (TASK,) if rows.select(pl.n_unique(GROUP)).item() <= 1 else (GROUP, TASK)
    in_order = rows.sort(*order, maintain_order=True)
    named = dict.fromkeys((*columns, *in_order.columns))
    named.pop(IDENTITY, None)
    whole = complete_columns(in_order, list(named), schema)  # nulls take no room
    return TaskRows(
        name=name, plan=plan, rows=whole, skipped=skipped, nulled=nulled, numbered=numbered
    )


def hold_single_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows, if many, with each column of a single value held as that value alone.

    Names of groups, systems and files, and weights that are all 1, would take half of the memory.
    """
    if rows.height < _MANY_ROWS:
        return rows
    nulls = rows.null_count().row(0, named=True)
    full = [name for name, of in rows.schema.items() if not (nulls[name] or of.is_nested())]
    low, high = (rows.select(getattr(pl.col(full), end)()).row(0) for end in ("min", "max"))
    single = {name: one for name, one, other in zip(full, low, high, strict=True) if one == other}
    for name in [name for name, value in single.items() if isinstance(value, float)]:
        if rows.select(pl.col(name).is_nan().any()).item():  # the least and the largest ignore it
            del single[name]
    held = [pl.lit(value, dtype=rows.schema[name]).alias(name) for name, value in single.items()]
    return rows.drop(single).with_columns(held).select(rows.columns)


def settle_metric(metric: Metric, sides: Sequence[TaskRows]) -> Metric:
    """Return the metric as a share if the values of all sides are 0 or 1, else unchanged."""
    if metric.yes_or_no is None:
        return metric
    [feature] = metric.features
    values = pl.concat(side.rows[feature.name] for side in sides).drop_nulls()
    return resolve_share(metric, float((~values.is_in([0.0, 1.0])).sum()))


def split_rows(whole: TaskRows, field: str) -> list[TaskRows]:
    """Split the rows by a field, in the order of its values; rows without one are in no part."""
    column = name_kept_field(field)
    groups = whole.rows.drop_nulls(column).partition_by(column, as_dict=True, maintain_order=True)
    return [
        replace(whole, name=_format_value(key), rows=groups[key,], skipped=0, nulled=0)
        for key in sorted(
            (key for (key,) in groups),
            key=lambda key: split_natural(key) if isinstance(key, str) else key,
        )
    ]


def _format_value(value: Any) -> str:
    """Return a field's value as in JSON, whole numbers without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def note_pooled(of_rows: TaskRows) -> Iterator[str]:
    """Say where several systems count as runs of a task, which is rarely meant."""
    names = [name for name in TELL_SYSTEMS_APART if name in of_rows.rows.columns]
    of_tasks = of_rows.rows.group_by(TASK).agg(pl.col(names).drop_nulls().n_unique())
    for name in names:
        systems = max(of_tasks[name].to_list(), default=0)
        if systems > 1:
            yield (
                f"{of_rows.name}: up to {systems} {name}s of a task count as its runs; "
                f"--by {name} keeps them apart"
            )


def select_counted(of_rows: TaskRows, metric: Metric) -> pl.DataFrame:
    """Return the rows that the metric counts, with the columns that it reads."""
    own = replace(of_rows.plan, metrics=(metric,)).schema
    rows = of_rows.rows.lazy().select(name for name in own if name in of_rows.rows.columns)
    rows = rows.filter(~pl.col(FAILED))
    aggregate = metric.aggregate
    if isinstance(aggregate, Rank):
        rows = rows.filter(pl.col(aggregate.feature.name).is_not_null())
    elif aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    return rows.collect(engine="in-memory")


def measure_tasks(of_rows: TaskRows, metric: Metric) -> pl.DataFrame | None:
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
        rows = of_rows.rows.select(GROUP, TASK, averaged.name).drop_nulls(averaged.name)
        if of_rows.is_one_per_task:
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
        values = next(task for task in aggregate.tasks if averaged in task.values)
        table = of_rows.sum_keys(aggregate)
        tasks = values.step(table.lazy())
        per = tasks.select(GROUP, TASK, value, RUNS).drop_nulls(VALUE).collect(engine="in-memory")
    return per.sort(GROUP, TASK)
