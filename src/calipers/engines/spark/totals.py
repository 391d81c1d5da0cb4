"""The groups' totals, added up in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import narwhals as nw
import polars as pl
from pyspark.sql import DataFrame, SparkSession

from calipers.engines.plan import Plan
from calipers.engines.ranks import select_ranks
from calipers.engines.spark.session import collected, on_cluster
from calipers.engines.spreads import add_spreads, beside_rows, beyond_rows, effects, per_cluster
from calipers.engines.totals import (
    GroupTotals,
    add_kept,
    add_task_spreads,
    add_totals,
    clustered_positions,
    described_positions,
    housekeeping,
    keyed,
    merged,
    pooled,
    rank_positions,
    task_steps,
    value_counts,
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


def group_totals(spark: SparkSession, good: DataFrame, plan: Plan) -> GroupTotals:
    """Every total that the plan's metrics and their intervals need."""
    groups: GroupTotals = {}
    rows = nw.from_native(good)
    keyed_tables: dict[Aggregate, Frame] = {}
    for aggregate in merged((*housekeeping(plan), *plan.aggregates, *plan.modes), plan):
        table = keyed(rows, aggregate)
        if not aggregate.keys:
            add_totals(groups, pooled([collected(table)], plan))
            continue
        keyed_tables[aggregate] = table
        if aggregate.kept_as is not None:
            add_kept(groups, collected(table), aggregate)
        of_tasks = partial(_of_tasks, rows=rows, plan=plan)
        steps: list[Step] = [*aggregate.finish]
        steps += [partial(of_tasks, values=values) for values in aggregate.tasks]
        for step in steps:
            add_totals(groups, collected(step(table)))
    for rank in plan.ranks:
        _add_ranks(groups, rank_positions(groups, rank, plan.confidence), rank.feature, rows, spark)
    for feature in plan.described:
        _add_ranks(groups, described_positions(groups, feature), feature, rows, spark)
    add_task_spreads(groups, plan)
    if plan.influences:
        add_totals(groups, _of_clusters(spark, rows, plan, groups, keyed_tables))
    add_spreads(groups, plan.influences)
    for rank in plan.ranks:
        _add_ranks(
            groups, clustered_positions(groups, rank, plan.confidence), rank.feature, rows, spark
        )
    return groups


def _of_tasks(table: Frame, *, values: TaskValues, rows: Frame, plan: Plan) -> Frame:
    """The groups' totals of values per task."""
    tasks = values.step(table)
    if plan.cluster is not None:
        task = nw.col(TASK)
        known = rows.filter(~task.is_null()).group_by(TASK).agg(nw.col(CLUSTER).min())
        own = nw.when(nw.col(CLUSTER).is_null()).then(task).otherwise(nw.col(CLUSTER))
        tasks = tasks.join(known.with_columns(own.alias(CLUSTER)), on=TASK)
    per_cluster, per_group = task_steps(values)
    return per_group(per_cluster(tasks))


def _of_clusters(
    spark: SparkSession,
    rows: Frame,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, Frame],
) -> pl.DataFrame:
    """What clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside: dict[Aggregate, pl.DataFrame | Frame] = {
        aggregate: found
        for aggregate, table in keyed_tables.items()
        if (found := beside_rows(table, aggregate, wanted)) is not None
    }
    if plan.cluster is None:
        rows = rows.with_columns(nw.col(TASK).alias(CLUSTER))
    rows = rows.filter(~nw.col(CLUSTER).is_null())
    moved = effects(rows, wanted, groups, beside, partial(_join_table, spark=spark))
    return collected(beyond_rows(per_cluster(moved, wanted), wanted))


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
        lambda count: collected(count(rows)),
        partial(_join_small, spark=spark),
        sum(value_counts(groups, feature).values()),
    )
    for group, name, value in found:
        groups[group][name] = value


def _join_table(
    rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str], *, spark: SparkSession
) -> Frame:
    other = on_cluster(table, spark) if isinstance(table, pl.DataFrame) else table
    return rows.join(other, on=list(on), how="left")


def _join_small(rows: Frame, few: pl.DataFrame, *, spark: SparkSession) -> Frame:
    return rows.join(on_cluster(few, spark), on=GROUP)
