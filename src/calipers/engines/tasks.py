"""The tasks of a part: which occur once and which several times, and their way to totals."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from calipers.engines.plan import IDENTITY, Plan
from calipers.engines.steps import MANY
from calipers.engines.totals import GroupTotals, sum_keys
from calipers.metrics.declare.columns import sum_by_group
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
from calipers.metrics.declare.intervals import SIZES, name_size_total
from calipers.support.late import WORTH_LOADING, np

_ODD = 0x1E3779B97F4A7C15  # times which numbers of tasks are spread over all numbers
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
        """Say whether any row may count: none does where only repeated tasks do, and none is."""
        return TASK not in aggregate.keys or aggregate.every_task or self.repeated.height > 0


def has_repeated(numbers: pl.Series) -> bool:
    """Say whether any number is there twice."""
    known = numbers.drop_nulls()
    return known.n_unique() < len(known)


def has_few_values(aggregate: Aggregate) -> bool:
    """Say whether many rows must be alike in what the aggregate adds up."""
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
    """Say whether `count_alike` may replace its tasks."""
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
            return tasks.group_by(GROUP, CLUSTER).agg(pl.col(RUNS, _TASKS, *names).sum())
        counted = pl.col(_ALIKE) if _ALIKE in columns else pl.lit(1)
        return tasks.select(GROUP, RUNS, _TASKS, *names, counted.alias(_ALIKE))

    def sum_groups(clusters: Frame) -> Frame:
        is_counted = _ALIKE in clusters.collect_schema().names()
        return sum_by_group(clusters, _express_task_totals(values, is_counted=is_counted))

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
    return {name: each * alike for name, each in totals.items()}


def add_task_spreads(groups: GroupTotals, plan: Plan) -> None:
    """Add the spread of task clusters around the mean of each value over the tasks."""
    for values in (each for aggregate in plan.aggregates for each in aggregate.tasks):
        for totals in groups.values():
            tasks = totals.get(f"{values.name}__tasks", 0)
            for name in values.values if tasks else ():
                mean = totals[f"{name}__sum"] / tasks
                squares = (
                    totals[f"{name}__squares"]
                    - 2 * mean * totals[f"{name}__cross"]
                    + mean * mean * totals[name_size_total(values.name, 2)]
                )
                rounding = 1e-14 * totals[f"{name}__squares"]
                totals[f"{name}__spread"] = squares / tasks**2 if squares > rounding else 0.0
                totals[f"{name}__clusters"] = totals[f"{values.name}__clusters"]
                totals[f"{name}__size"] = tasks
                for power in SIZES:
                    totals[name_size_total(name, power)] = totals[
                        name_size_total(values.name, power)
                    ]
