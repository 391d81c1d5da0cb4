"""Totals: the sums that aggregates declare, per group, per key and per task.

Sums are always taken in the same order, so that results are reproducible to the last bit. Tasks
that occur once in a part and those that occur several times go separate ways; tasks with equal
totals are counted and computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import Any

import polars as pl

from calipers.engines.plan import FAILED, FAILURE, IDENTITY, TRUNCATED, Plan
from calipers.metrics.declare.columns import put_where
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    RUNS,
    TASK,
    Aggregate,
    Frame,
    Step,
    TaskValues,
)
from calipers.metrics.declare.interval_methods import (
    SIZES,
    name_all_squares,
    name_corrected,
    name_cubes,
    name_inside,
    name_share_total,
    name_size_total,
    name_squares,
)
from calipers.metrics.declare.means import sum_by_group
from calipers.statistics.clusters import SHARE_SUMS
from calipers.statistics.elementwise import choose, divide, is_anywhere, power
from calipers.support.lazy_numpy import WORTH_LOADING, np

RECORDS = "records"
ERRORS = "errors"
TRUNCATED_REPLIES = "truncated"
FAILURES = "failures"  # failed calls that count as such
REPEATED = "repeated_identity"

_WAITING_ROWS = 500_000  # so many rows more may wait to be added up


def list_housekeeping(plan: Plan) -> tuple[Aggregate, ...]:
    """Return what every run counts: records, failed calls, repeated ids."""
    flags = {ERRORS: FAILED, TRUNCATED_REPLIES: TRUNCATED}
    flags |= {FAILURES: FAILURE} if plan.counts_failures else {}
    counted = Aggregate(
        features=(),
        totals={
            RECORDS: pl.len().cast(pl.Int64),
            **{name: pl.col(flag).cast(pl.Int64).sum() for name, flag in flags.items()},
            **{rank.count_name: pl.count(rank.feature.name).cast(pl.Int64) for rank in plan.ranks},
        },
    )
    identities = Aggregate(
        features=(),
        keys=(TASK, IDENTITY),
        where=lambda: ~pl.col(TASK).is_null(),
        totals={"n": pl.len().cast(pl.Int64)},
        finish=(_count_repeated,),
    )
    return counted, identities


def _count_repeated(identities: Frame) -> Frame:
    return (
        identities.filter(pl.col("n") > 1)
        .group_by(GROUP)
        .agg((pl.col("n") - 1).sum().alias(REPEATED))
    )


def sum_keys(rows: Frame, aggregate: Aggregate, by: Sequence[str] | None = None) -> Frame:
    """Return the first step of an aggregate: totals per group and key, or by some of these.

    Quickest where the rows are in the order of their groups, or of their tasks.
    """
    if aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    named = [total.alias(name) for name, total in aggregate.totals.items()]
    if by is None and (TASK in aggregate.keys or CLUSTER in aggregate.keys):  # of one group each
        return rows.group_by(aggregate.keys).agg(pl.col(GROUP).min(), *named)
    return rows.group_by(by or (GROUP, *aggregate.keys)).agg(named)


def merge_aggregates(aggregates: Iterable[Aggregate], plan: Plan) -> list[Aggregate]:
    """Return aggregates without keys as one, for one pass; likewise those that count alike.

    The one carries the variance of each feature whose mean is wanted; `pooled` puts them together.
    """
    aggregates = list(aggregates)
    plain = dict(merge_plain(aggregates).totals)
    for name in _list_averaged(plan):
        plain[f"{name}__variance"] = pl.col(name).cast(pl.Float64).var(ddof=0)
    for name in _list_endless(plan):
        plain[f"{name}__skewness"] = pl.col(name).cast(pl.Float64).skew()
    alike: dict[Any, Aggregate] = {}
    for aggregate in aggregates:
        if aggregate.keys:
            same = (
                (aggregate.keys, aggregate.where, id(aggregate.totals))
                if aggregate.tasks
                else aggregate
            )
            tasks = alike[same].tasks if same in alike else ()
            alike[same] = (
                replace(aggregate, tasks=(*tasks, *aggregate.tasks)) if tasks else aggregate
            )
    return [Aggregate(features=(), totals=plain), *alike.values()]


def merge_plain(aggregates: Iterable[Aggregate]) -> Aggregate:
    """Return the totals of all aggregates without keys."""
    plain = (aggregate.totals for aggregate in aggregates if not aggregate.keys)
    return Aggregate(
        features=(), totals={name: total for one in plain for name, total in one.items()}
    )


def pool_parts(parts: Iterable[pl.DataFrame], plan: Plan) -> pl.DataFrame:
    """Return the sum of the parts' totals, and Σ (x − mean)² of each averaged feature.

    Of means without an end also Σ (x − mean)³.
    """
    rows = pl.concat(parts)
    names, endless = _list_averaged(plan), _list_endless(plan)
    own = [f"{name}__variance" for name in names] + [f"{name}__skewness" for name in endless]
    sums = sum_tables([rows.drop(own)], [GROUP])
    means = {name: pl.col(f"{name}__sum") / pl.col(f"{name}__n") for name in names}
    of_groups = sums.select(GROUP, **{f"{name}__mean": mean for name, mean in means.items()})
    powers = {}
    for name, mean in means.items():
        n, variance = pl.col(f"{name}__n"), pl.col(f"{name}__variance")
        apart = mean - pl.col(f"{name}__mean")
        powers[f"{name}__squares"] = n * (variance + apart**2)
        if name in endless:
            third = (
                pl.col(f"{name}__skewness").fill_nan(0.0).fill_null(0.0)
                * variance
                * variance.sqrt()
            )
            powers[name_cubes(name)] = n * (third + 3 * apart * variance + apart**3)
    around = rows.join(of_groups, on=GROUP, maintain_order="left").select(GROUP, **powers)
    around = around.with_columns(pl.exclude(GROUP).fill_nan(None))
    table = sum_tables([around], [GROUP]).with_columns(map(_drop_rounding, endless))
    return sums.join(table, on=GROUP, maintain_order="left")


def _drop_rounding(name: str) -> pl.Expr:
    """Return Σ (x − mean)³, 0 where it is no more than rounding leaves of it."""
    cubes, squares = pl.col(name_cubes(name)), pl.col(f"{name}__squares")
    return (
        pl.when(cubes.abs() > _ROUNDING * squares * squares.sqrt())
        .then(cubes)
        .otherwise(0.0)
        .alias(name_cubes(name))
    )


def _list_endless(plan: Plan) -> list[str]:
    """Return the features whose mean has no end on one side."""
    found = {
        metric.influence.feature.name: None
        for metric in plan.metrics
        if metric.influence is not None
        and metric.influence.feature is not None
        and not all(map(isfinite, metric.range))
    }
    return [*found]


def _list_averaged(plan: Plan) -> list[str]:
    of_means = (influence.feature for influence in plan.influences)
    features = (*(feature for feature in of_means if feature is not None), *plan.described)
    return list(dict.fromkeys(feature.name for feature in features))


class Sum:
    """Additive tables, added up as they come: never many more rows are held than it has.

    If each table is known to have one row per key, the sum of one is the table itself.
    """

    def __init__(self, keys: Sequence[str], *, are_distinct: bool = False) -> None:
        self._keys = list(keys)
        self._are_distinct = are_distinct
        self._held: list[pl.DataFrame] = []
        self._added_up = 0

    def add(self, table: pl.DataFrame) -> None:
        """Take one more."""
        self._held.append(table)
        if sum(table.height for table in self._held) > 2 * self._added_up + _WAITING_ROWS:
            self._held = [self._sum()]
            self._added_up = self._held[0].height

    @property
    def table(self) -> pl.DataFrame:
        """A row per key, always in the same order."""
        return self._sum().sort(self._keys)

    def _sum(self) -> pl.DataFrame:
        if self._are_distinct and len(self._held) == 1:
            return self._held[0]
        by_key = pl.concat(self._held).group_by(self._keys, maintain_order=True)
        return by_key.agg(pl.exclude(self._keys).sum())


def sum_tables(tables: Iterable[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """Return the sum of additive tables, a row per key, always in the same order."""
    sums = Sum(keys)
    for table in tables:
        sums.add(table)
    return sums.table


MANY = 100_000  # rows; with fewer, to set up a stream takes longer than it saves


def apply_steps(table: pl.DataFrame, *steps: Step) -> pl.DataFrame:
    """Return what the steps, one after the other, make of the table."""
    for step in steps:
        table = collect_sorted(step(table.lazy()))
    return table


def collect_sorted(frame: Frame, *keys: str) -> pl.DataFrame:
    """Return the table in the order of its keys, so that sums over it are reproducible.

    It is sorted once it is there: before that, Polars would sum its groups in no order at all.
    """
    table = frame.collect(engine="in-memory")
    first = TASK if TASK in table.columns else GROUP  # a task is of one group
    return table.sort(name for name in (first, *keys) if name in table.columns)


def sum_by_keys(rows: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return totals per group and key; a key that is the same in all rows is quickly told.

    Whole numbers give the same sum in any order, and so may be summed as rows stream by.
    """
    frame, keys = rows.lazy(), aggregate.keys
    if len(keys) != 1 or TASK in keys:
        return collect_sorted(sum_keys(frame, aggregate), *keys)
    [key] = keys
    if _is_constant(rows[key]):
        only = pl.lit(rows[key][0], dtype=rows.schema[key]).alias(key)
        summed = collect_sorted(sum_keys(frame, aggregate, [GROUP])).with_columns(only)
        return summed.select(GROUP, key, *aggregate.totals)  # parts are put below one another
    sums = sum_keys(frame, aggregate)
    streams = rows.height > MANY and _are_whole(sums.collect_schema(), aggregate)
    return sums.collect(engine="streaming" if streams else "in-memory").sort(GROUP, key)


def _are_whole(types: Mapping[str, pl.DataType], aggregate: Aggregate) -> bool:
    return all(types[name].is_integer() for name in aggregate.totals)


def _is_constant(values: pl.Series) -> bool:
    """Return True if all rows have the same value; most often the first and the last tell."""
    if not len(values) or values.null_count() or values[0] != values[-1]:
        return False
    return bool((values == values[0]).all())


_ROUNDING = 1e-9  # of a skewness
_LEAST_LEFT = 1e-9  # of the tasks, beside a cluster that has nearly all of them
_ODD = 0x1E3779B97F4A7C15  # a multiplier that spreads task numbers over all 64-bit numbers
_TASKS, _ALIKE = "_tasks", "_alike"


class TaskCounts:
    """A part's rows by how often their tasks occur in it; all rows of a task are in one part."""

    def __init__(self, part: pl.DataFrame, *, are_single: bool = False) -> None:
        self.part = part
        known = part.filter(pl.col(TASK).is_not_null()) if part[TASK].null_count() else part
        if are_single:
            self.single, self.repeated = known, known.clear()
        elif known[TASK].flags["SORTED_ASC"] and known.height >= WORTH_LOADING:
            tasks = known[TASK].to_numpy()
            same = np.concatenate(([False], tasks[1:] == tasks[:-1], [False]))
            repeated = same[1:] | same[:-1]
            self.repeated = known if repeated.all() else known.filter(repeated)
            self.single = known.filter(~repeated)
        elif not has_repeated(known[TASK]):  # quicker than to look for them
            self.single, self.repeated = known, known.clear()
        else:
            duplicated = known[TASK].is_duplicated()
            self.single = known.filter(~duplicated)
            self.repeated = known.filter(duplicated).sort(TASK, maintain_order=True)

    @cached_property
    def repeated_calls(self) -> pl.DataFrame:
        """The rows whose call (of a task, by its run) occurs twice or more."""
        # Different calls are told by one number more quickly than by two.
        call = pl.col(TASK) * _ODD + pl.col(IDENTITY).fill_null(0)
        if not has_repeated(self.repeated.select(call).to_series()):
            return self.repeated.clear()
        return self.repeated.filter(pl.struct(TASK, IDENTITY).is_duplicated())

    def select(self, aggregate: Aggregate) -> pl.DataFrame:
        """Return the rows that can count; a task or call that occurs once is never repeated."""
        if aggregate.every_task:
            return self.part
        return self.repeated_calls if IDENTITY in aggregate.keys else self.repeated

    def have_any(self, aggregate: Aggregate) -> bool:
        """Return True if any row may count; repeated tasks alone may be asked for."""
        return TASK not in aggregate.keys or aggregate.every_task or self.repeated.height > 0


def has_repeated(numbers: pl.Series) -> bool:
    """Return True if any number is there twice."""
    known = numbers.drop_nulls()
    return known.n_unique() < len(known)


def has_boolean_totals(aggregate: Aggregate) -> bool:
    """Return True if many rows must be alike in what the aggregate adds up."""
    return all(feature.dtype == pl.Boolean for feature in aggregate.features)


def count_alike(tasks: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return tasks of equal totals counted, so that what follows is computed once.

    For tasks that are clusters of their own, and totals per task alone.
    """
    by = [GROUP, *aggregate.totals]
    return tasks.group_by(by).agg(pl.len().cast(pl.Int64).alias(_ALIKE)).sort(by)


def count_alike_rows(rows: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return the same of rows that are tasks of their own: those of equal values are one task."""
    values = [GROUP, *(feature.name for feature in aggregate.features)]
    counted = rows.lazy().group_by(values).agg(pl.len().cast(pl.Int64).alias(_ALIKE))
    streams = rows.height > MANY  # counts are the same in any order
    alike = counted.collect(engine="streaming" if streams else "in-memory").sort(values)
    alike = alike.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(TASK))
    totals = sum_keys(alike.lazy(), aggregate)
    joined = totals.join(alike.lazy().select(TASK, _ALIKE), on=TASK)
    return joined.group_by(GROUP, *aggregate.totals).agg(pl.col(_ALIKE).sum()).collect()


def are_counted_alike(aggregate: Aggregate, plan: Plan) -> bool:
    """Return True if `count_alike` may replace its tasks."""
    return plan.cluster is None and aggregate.keys == (TASK,)


def make_task_steps(values: TaskValues) -> tuple[Step, Step]:
    """Return the steps from a row per task to one per cluster, and on to totals per group.

    Where the tasks carry no cluster, each is one of its own.
    """
    names = values.values

    def sum_clusters(tasks: Frame) -> Frame:
        columns = tasks.collect_schema().names()
        tasks = tasks.with_columns(pl.lit(1.0).alias(_TASKS), pl.col(*names).cast(pl.Float64))
        if CLUSTER in columns:  # which parts of a table may share: what is kept adds up
            own = {_name_own_squares(name): (pl.col(name) ** 2).sum() for name in names}
            sums = pl.col(RUNS, _TASKS, *names).sum()
            return tasks.group_by(GROUP, CLUSTER).agg(sums, **own)
        counted = pl.col(_ALIKE) if _ALIKE in columns else pl.lit(1)
        return tasks.select(GROUP, RUNS, _TASKS, *names, counted.alias(_ALIKE))

    def sum_groups(clusters: Frame) -> Frame:
        columns = clusters.collect_schema().names()
        added = _express_task_totals(values, is_counted=_ALIKE in columns)
        for name in names if CLUSTER in columns else ():
            added |= _express_cluster_totals(name)
        return sum_by_group(clusters, added)

    return sum_clusters, sum_groups


def _express_task_totals(values: TaskValues, *, is_counted: bool) -> dict[str, pl.Expr]:
    """Return what tasks or clusters of these add to the totals of their group."""
    size, alike = pl.col(_TASKS), pl.col(_ALIKE) if is_counted else pl.lit(1)
    totals = {
        f"{values.name}__rows": pl.col(RUNS),
        f"{values.name}__tasks": size,
        **{name_size_total(values.name, power): size**power for power in SIZES},
        f"{values.name}__clusters": pl.lit(1),
    }
    for name in values.values:
        value = pl.col(name)
        totals[f"{name}__sum"] = value
        totals[f"{name}__squares"] = value * value
        totals[f"{name}__cross"] = value * size
        totals[f"{name}__third"] = value * value * value
    return {name: total * alike for name, total in totals.items()}


def _name_own_squares(name: str) -> str:
    return f"{name}__own_squares"


def _express_cluster_totals(name: str) -> dict[str, pl.Expr]:
    """Return what clusters add to the sums that CR2 and its degrees of freedom take.

    All clusters of a group are there, so that its tasks and their mean are known.
    """
    value, size, own = pl.col(name), pl.col(_TASKS), pl.col(_name_own_squares(name))
    tasks = size.sum().over(GROUP)
    mean, share = value.sum().over(GROUP) / tasks, size / tasks
    left = pl.max_horizontal(1 - share, pl.lit(_LEAST_LEFT))
    moved = value - mean * size
    return {
        name_squares(name): moved * moved,
        name_corrected(name): moved * moved / left,
        name_cubes(name): moved * moved * moved,
        name_inside(name): own - value * value / size,
        name_all_squares(name): own - mean * (2 * value - mean * size),
        **{name_share_total(name, i, j): share**i / left**j for i, j in SHARE_SUMS},
    }


def add_task_spreads(blocks: Iterable[dict[str, Any]], plan: Plan) -> None:
    """Add the spread of task clusters around the mean of each value over the tasks."""
    every = [task for aggregate in plan.aggregates for task in aggregate.tasks]
    for totals in blocks:
        for values in every:
            if is_anywhere(totals.get(f"{values.name}__tasks", 0) != 0):
                for name in values.values:
                    _add_task_spread(totals, values, name)


def _add_task_spread(totals: dict[str, Any], values: TaskValues, name: str) -> None:
    tasks = totals[f"{values.name}__tasks"]
    mean = divide(totals[f"{name}__sum"], tasks)
    squares = (
        totals[f"{name}__squares"]
        - 2 * mean * totals[f"{name}__cross"]
        + mean * mean * totals[name_size_total(values.name, 2)]
    )
    rounding = 1e-14 * totals[f"{name}__squares"]
    spread = choose(squares > rounding, divide(squares, power(tasks, 2)), 0.0)
    added = {f"{name}__spread": spread}
    if name_cubes(name) not in totals:  # without clusters, each task is of size 1
        added[name_cubes(name)] = (
            totals[f"{name}__third"]
            - 3 * mean * totals[f"{name}__squares"]
            + 2 * tasks * power(mean, 3)
        )
    added[f"{name}__clusters"] = totals[f"{values.name}__clusters"]
    added[f"{name}__size"] = tasks
    for exponent in SIZES:
        added[name_size_total(name, exponent)] = totals[name_size_total(values.name, exponent)]
    put_where(totals, added, tasks != 0)
