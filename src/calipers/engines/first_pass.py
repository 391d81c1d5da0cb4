"""The first pass over the parts of a table: all totals that add up, and what is counted beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice

import polars as pl

from calipers.engines.keyed_sums import sum_by_keys
from calipers.engines.plan import Plan
from calipers.engines.ranks import Count
from calipers.engines.steps import apply_each, apply_steps, collect_sorted
from calipers.engines.store import GroupedRows, MakeTables
from calipers.engines.task_totals import (
    are_counted_alike,
    count_alike,
    count_alike_rows,
    make_task_steps,
)
from calipers.engines.tasks import TaskCounts, has_few_values
from calipers.engines.totals import (
    GroupTotals,
    Sum,
    add_kept,
    add_totals,
    list_housekeeping,
    merge_aggregates,
    pool_parts,
    sum_tables,
)
from calipers.engines.value_counts import ValueCounts, count_part
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK, Aggregate, Feature
from calipers.support.quick_dataclasses import dataclass

_REPEATED = "_repeated"


@dataclass(frozen=True, kw_only=True)
class FirstPass:
    """What the first pass over the parts gives."""

    groups: GroupTotals  # all additive totals
    keyed_tables: dict[Aggregate, pl.DataFrame]  # of the totals that are kept per key
    counts: dict[Feature, pl.DataFrame]  # of values, by the upper bits of their sort keys
    repeated: int  # rows of tasks that have several


def sum_first_pass(
    store: GroupedRows, plan: Plan, modes: Sequence[Aggregate], counts: Mapping[Feature, Count]
) -> FirstPass:
    """Return the additive totals of the groups, and what is counted on the way."""
    aggregates = merge_aggregates((*list_housekeeping(plan), *plan.aggregates, *modes), plan)
    sums = {each: Sum([GROUP, *each.keys]) for each in aggregates if _is_kept(each)}
    parts: dict[Aggregate, list[list[pl.DataFrame]]] = {
        each: [] for each in aggregates if each not in sums
    }
    value_counts = ValueCounts(counts)
    repeated = 0
    work = _sum_parts(aggregates, plan, counts, are_single=store.are_tasks_single)
    columns = [name for name in plan.schema if name not in plan.having]
    for made in store.map_parts(work, columns):
        found = iter(made)
        repeated += next(found).item()
        for aggregate in aggregates:
            tables = list(islice(found, _count_tables(aggregate, plan)))
            if aggregate in sums:
                sums[aggregate].add(tables[0])
            else:
                parts[aggregate].append([store.decode_groups(table) for table in tables])
        value_counts.add(found)
    keyed_tables = {
        aggregate: store.decode_groups(each.table).sort(GROUP, *aggregate.keys)
        for aggregate, each in sums.items()
    }
    groups: GroupTotals = {}
    for aggregate, made_of_parts in parts.items():
        for finished in _finish_parts(made_of_parts, aggregate, plan):
            add_totals(groups, finished)
    for aggregate, table in keyed_tables.items():
        if aggregate.kept_as is not None:
            add_kept(groups, table, aggregate)
        for finished in apply_each(table, aggregate.finish):
            add_totals(groups, finished)
    return FirstPass(
        groups=groups,
        keyed_tables=keyed_tables,
        counts=value_counts.finish(store),
        repeated=repeated,
    )


def _is_kept(aggregate: Aggregate) -> bool:
    """Say whether its totals stay apart by key; a task's are finished within its part."""
    return bool(aggregate.keys) and TASK not in aggregate.keys


def _count_tables(aggregate: Aggregate, plan: Plan) -> int:
    """Return how many tables `_sum_part` makes."""
    if TASK not in aggregate.keys:
        return 1
    of_tasks = len(aggregate.tasks)
    return len(aggregate.finish) + (
        min(1, of_tasks) if are_counted_alike(aggregate, plan) else of_tasks
    )


def _sum_parts(
    aggregates: Sequence[Aggregate],
    plan: Plan,
    counts: Mapping[Feature, Count],
    *,
    are_single: bool,
) -> MakeTables:
    """Return what makes a part's tables: its rows of repeated tasks, all totals, and counts."""
    without_repeated: dict[Aggregate, list[pl.DataFrame]] = {}  # the same for every part

    def make_tables(part: pl.DataFrame) -> list[pl.DataFrame]:
        tasks = TaskCounts(part, are_single=are_single)

        def sum_part(aggregate: Aggregate) -> list[pl.DataFrame]:
            if tasks.have_any(aggregate):
                return _sum_part(tasks, aggregate, plan)
            if aggregate not in without_repeated:
                without_repeated[aggregate] = _sum_part(tasks, aggregate, plan)
            return without_repeated[aggregate]

        with ThreadPoolExecutor(2) as pool:
            found = pool.map(sum_part, aggregates)
            rows = pl.DataFrame({_REPEATED: [tasks.repeated.height]})
            return [rows, *chain.from_iterable(found), *count_part(part, counts)]

    return make_tables


def _sum_part(tasks: TaskCounts, aggregate: Aggregate, plan: Plan) -> list[pl.DataFrame]:
    """Return a part's tables; finished if the key is a task, which is whole within its part."""
    if TASK not in aggregate.keys:
        return [sum_by_keys(tasks.part, aggregate)]
    alike = bool(aggregate.tasks) and are_counted_alike(aggregate, plan)
    if alike and not aggregate.finish and has_few_values(aggregate):
        return [sum_tables(_count_tasks(tasks, aggregate), [GROUP, *aggregate.totals])]
    table = sum_by_keys(tasks.select(aggregate), aggregate)
    tables = apply_each(table, aggregate.finish)
    if alike:
        return [*tables, _count_alike(table, aggregate)]
    for values in aggregate.tasks:
        per_cluster, per_group = make_task_steps(values)
        each = collect_sorted(values.step(table.lazy()))
        if plan.cluster is not None:
            clusters = tasks.part.group_by(TASK).agg(
                pl.coalesce(pl.col(CLUSTER).min(), pl.first(TASK))
            )
            each = each.join(clusters, on=TASK, maintain_order="left")
        steps = (per_cluster,) if plan.cluster is not None else (per_cluster, per_group)
        tables.append(apply_steps(each, *steps))
    return tables


def _count_tasks(tasks: TaskCounts, aggregate: Aggregate) -> Iterator[pl.DataFrame]:
    """Yield tasks of equal totals, counted: those of several rows, and those of one."""
    yield _count_alike(sum_by_keys(tasks.repeated, aggregate), aggregate)
    if aggregate.every_task:
        yield count_alike_rows(tasks.single, aggregate)


def _count_alike(table: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    counted = count_alike(table.lazy(), aggregate)
    return collect_sorted(counted, *aggregate.totals)


def _finish_parts(
    parts: Sequence[Sequence[pl.DataFrame]], aggregate: Aggregate, plan: Plan
) -> Iterator[pl.DataFrame]:
    """Yield the groups' totals from the finished tables of all parts."""
    if not aggregate.keys:
        yield pool_parts((tables[0] for tables in parts), plan)
        return
    plain = len(aggregate.finish)
    for number, tables in enumerate(zip(*parts, strict=True)):
        if number < plain:
            yield sum_tables(tables, [GROUP])
        elif are_counted_alike(aggregate, plan):
            tasks = sum_tables(tables, [GROUP, *aggregate.totals])
            for values in aggregate.tasks:
                yield apply_steps(tasks, values.step, *make_task_steps(values))
        elif plan.cluster is None:
            yield sum_tables(tables, [GROUP])
        else:
            _, per_group = make_task_steps(aggregate.tasks[number - plain])
            yield apply_steps(sum_tables(tables, [GROUP, CLUSTER]), per_group)
