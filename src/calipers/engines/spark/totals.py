"""The groups' totals, added up in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import narwhals as nw
import polars as pl
from pyspark.sql import DataFrame, SparkSession

from calipers.engines.plan import Plan
from calipers.engines.ranks import select_ranks
from calipers.engines.spark.session import collect_table, send_table
from calipers.engines.spreads import (
    add_effects,
    add_spreads,
    select_key_totals,
    sum_beyond_rows,
    sum_clusters,
)
from calipers.engines.totals import (
    GroupTotals,
    add_kept,
    add_task_spreads,
    add_totals,
    count_values,
    list_housekeeping,
    locate_clustered_ranks,
    locate_described,
    locate_ranks,
    make_task_steps,
    merge_aggregates,
    pool_parts,
    sum_keys,
)
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Step,
    TaskValues,
)


def sum_groups(spark: SparkSession, good: DataFrame, plan: Plan) -> GroupTotals:
    """Return every total that the plan's metrics and their intervals need."""
    groups: GroupTotals = {}
    rows = nw.from_native(good)
    keyed_tables: dict[Aggregate, Frame] = {}
    for aggregate in merge_aggregates(
        (*list_housekeeping(plan), *plan.aggregates, *plan.find_modes), plan
    ):
        table = sum_keys(rows, aggregate)
        if not aggregate.keys:
            add_totals(groups, pool_parts([collect_table(table)], plan))
            continue
        keyed_tables[aggregate] = table
        if aggregate.kept_as is not None:
            add_kept(groups, collect_table(table), aggregate)
        of_tasks = partial(_sum_tasks, rows=rows, plan=plan)
        steps: list[Step] = [*aggregate.finish]
        steps += [partial(of_tasks, values=values) for values in aggregate.tasks]
        for step in steps:
            add_totals(groups, collect_table(step(table)))
    for rank in plan.ranks:
        _add_ranks(groups, locate_ranks(groups, rank, plan.confidence), rank.feature, rows, spark)
    for feature in plan.described:
        _add_ranks(groups, locate_described(groups, feature), feature, rows, spark)
    add_task_spreads(groups, plan)
    if plan.influences:
        add_totals(groups, _sum_clusters(spark, rows, plan, groups, keyed_tables))
    add_spreads(groups, plan.influences)
    for rank in plan.ranks:
        _add_ranks(
            groups, locate_clustered_ranks(groups, rank, plan.confidence), rank.feature, rows, spark
        )
    return groups


def _sum_tasks(table: Frame, *, values: TaskValues, rows: Frame, plan: Plan) -> Frame:
    """Return the groups' totals of values per task."""
    tasks = values.step(table)
    if plan.cluster is not None:
        task = nw.col(TASK)
        known = rows.filter(~task.is_null()).group_by(TASK).agg(nw.col(CLUSTER).min())
        own = nw.when(nw.col(CLUSTER).is_null()).then(task).otherwise(nw.col(CLUSTER))
        tasks = tasks.join(known.with_columns(own.alias(CLUSTER)), on=TASK)
    per_cluster, per_group = make_task_steps(values)
    return per_group(per_cluster(tasks))


def _sum_clusters(
    spark: SparkSession,
    rows: Frame,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, Frame],
) -> pl.DataFrame:
    """Return what clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside: dict[Aggregate, pl.DataFrame | Frame] = {
        aggregate: found
        for aggregate, table in keyed_tables.items()
        if (found := select_key_totals(table, aggregate, wanted)) is not None
    }
    if plan.cluster is None:
        rows = rows.with_columns(nw.col(TASK).alias(CLUSTER))
    rows = rows.filter(~nw.col(CLUSTER).is_null())
    moved = add_effects(rows, wanted, groups, beside, partial(_join_table, spark=spark))
    return collect_table(sum_beyond_rows(sum_clusters(moved, wanted), wanted))


def _add_ranks(
    groups: GroupTotals,
    positions: Sequence[tuple[str, str, int]],
    feature: Feature,
    rows: Frame,
    spark: SparkSession,
) -> None:
    found = select_ranks(
        feature,
        positions,
        lambda count: collect_table(count(rows)),
        partial(_join_small, spark=spark),
        sum(count_values(groups, feature).values()),
    )
    for group, name, value in found:
        groups[group][name] = value


def _join_table(
    rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str], *, spark: SparkSession
) -> Frame:
    other = send_table(table, spark) if isinstance(table, pl.DataFrame) else table
    return rows.join(other, on=list(on), how="left")


def _join_small(rows: Frame, few: pl.DataFrame, *, spark: SparkSession) -> Frame:
    return rows.join(send_table(few, spark), on=GROUP)
