"""The second pass over the parts of a table: what clusters of several rows add to each spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import polars as pl

from calipers.engines.plan import Plan
from calipers.engines.spreads import (
    add_effects,
    join_table,
    look_up,
    select_key_totals,
    sum_beyond_rows,
    sum_clusters,
)
from calipers.engines.steps import apply_steps, collect_sorted
from calipers.engines.store import GroupedRows, encode_groups
from calipers.engines.tasks import TaskCounts
from calipers.engines.totals import GroupTotals, sum_tables
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK, Aggregate, Frame


def sum_second_pass(
    store: GroupedRows,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Yield what clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside = {
        aggregate: collect_sorted(found, *aggregate.keys)
        for aggregate, table in keyed_tables.items()
        if (found := select_key_totals(table.lazy(), aggregate, wanted)) is not None
    }
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]
    codes = store.codes

    def join(rows: Frame, table: pl.DataFrame, on: Sequence[str]) -> Frame:
        coded = encode_groups(table, codes)
        return look_up(rows, coded, len(codes)) if [*on] == [GROUP] else join_table(rows, coded, on)

    def sum_part(part: pl.DataFrame) -> list[pl.DataFrame]:
        rows = TaskCounts(part).repeated if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height:
            return []
        moved = add_effects(rows.lazy(), wanted, groups, beside, join)
        effects: pl.DataFrame = moved.collect(engine="in-memory")
        clusters = sum_clusters(effects.sort(CLUSTER, maintain_order=True), wanted)
        return [apply_steps(clusters, step) if cluster == TASK else clusters]

    if not wanted:
        return
    step = partial(sum_beyond_rows, wanted=wanted)
    of_parts = store.map_parts(sum_part, [GROUP, cluster, *features])
    tables = [table for found in of_parts for table in found]
    if tables and cluster == TASK:
        yield store.decode_groups(sum_tables(tables, [GROUP]))
    elif tables:
        yield store.decode_groups(apply_steps(sum_tables(tables, [GROUP, CLUSTER]), step))
