"""The influence of each cluster of rows on each value, from which every error bar is computed.

Over rows that are clusters of their own the squares of the influences follow from the totals. Rows
that share a cluster move a value together: for these, a second pass adds their influences up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from calipers.engines.group_codes import mark_changes
from calipers.engines.plan import Plan
from calipers.engines.store import GroupedRows
from calipers.engines.totals import GroupTotals, TaskCounts, apply_steps, collect_sorted, sum_tables
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Frame,
    Influence,
    centre_column,
    total_column,
)
from calipers.metrics.declare.interval_methods import (
    SIZES,
    name_all_squares,
    name_corrected,
    name_cubes,
    name_inside,
    name_one_cluster,
    name_share_total,
    name_size_total,
    name_squares,
)
from calipers.metrics.declare.means import sum_by_group
from calipers.statistics.clusters import SHARE_SUMS
from calipers.support.lazy_numpy import np

_NEARLY_ALL = 1 - 1e-9  # share of a cluster beside which nothing is left

JoinTable = Callable[[Frame, pl.DataFrame, Sequence[str]], Frame]
"""Joins rows with a table of totals: all rows stay, in their order."""


def add_effects(
    rows: Frame,
    wanted: Sequence[Influence],
    groups: GroupTotals,
    keyed: Mapping[Aggregate, pl.DataFrame],
    join: JoinTable,
) -> Frame:
    """Return each row's group, cluster and effect on every value."""
    rows = join(rows, _list_centres(wanted, groups), [GROUP])
    for aggregate, table in keyed.items():
        rows = join(rows, table, [GROUP, *aggregate.keys])
    return rows.select(
        GROUP, CLUSTER, *(influence.effect.alias(influence.name) for influence in wanted)
    )


def join_table(rows: Frame, table: pl.DataFrame, on: Sequence[str]) -> Frame:
    """Return the join of tables in memory."""
    return rows.join(table.lazy(), on=list(on), how="left", maintain_order="left")


def join_by_number(rows: Frame, table: pl.DataFrame, groups: int) -> Frame:
    """Return the join on groups, so many, that small numbers stand for."""
    places = pl.DataFrame({GROUP: range(groups)}, schema={GROUP: table.schema[GROUP]})
    by_number = places.join(table, on=GROUP, how="left", maintain_order="left").drop(GROUP)
    columns = (pl.lit(column).gather(pl.col(GROUP)).alias(column.name) for column in by_number)
    return rows.with_columns(columns)


def _list_centres(wanted: Sequence[Influence], groups: GroupTotals) -> pl.DataFrame:
    columns = {
        centre_column(name): [
            float(number(totals)) if totals.get(influence.rows) else None
            for totals in groups.values()
        ]
        for influence in wanted
        for name, number in {influence.name: influence.centre, **influence.numbers}.items()
    }
    schema = {GROUP: pl.String(), **dict.fromkeys(columns, pl.Float64())}
    return pl.DataFrame({GROUP: list(groups), **columns}, schema=schema)


def select_key_totals(
    tables: Mapping[Aggregate, Frame], wanted: Sequence[Influence]
) -> dict[Aggregate, pl.DataFrame]:
    """Return the totals per key that effects read: a row per group and key; if any effect does."""
    key_totals = {}
    for aggregate, table in tables.items():
        readers = [influence for influence in wanted if influence.keyed is aggregate]
        if not readers:
            continue
        made = table
        for step in dict.fromkeys(reader.keyed_step for reader in readers if reader.keyed_step):
            made = step(made)
        names = sorted({name for reader in readers for name in reader.keyed_reads})
        columns = (pl.col(name).alias(total_column(name)) for name in names)
        keys = aggregate.keys
        key_totals[aggregate] = collect_sorted(made.select(GROUP, *keys, *columns), *keys)
    return key_totals


def sum_cluster_effects(rows: pl.DataFrame, wanted: Sequence[Influence]) -> pl.DataFrame:
    """Return the effect of each cluster, the squares of its rows' effects, and its rows.

    The rows are in the order of their clusters, which belong to one group each. The clusters are
    in the order of groups: without it, Polars adds them up in one of several ways.
    """
    clusters = rows[CLUSTER].to_numpy()
    starts = np.flatnonzero(mark_changes(clusters))
    sizes = np.diff(starts, append=rows.height)
    sums: dict[str, Any] = {}
    power = np.empty(rows.height)
    for influence in wanted:
        effects = rows[influence.name]
        values = effects.fill_null(0.0).to_numpy()
        power[:] = values
        sums[influence.name] = np.add.reduceat(values, starts)
        for number in SIZES if influence.powers else SIZES[:2]:
            power *= values
            sums[f"{influence.name}__row_power_{number}"] = np.add.reduceat(power, starts)
        known = effects.is_not_null().to_numpy() if effects.null_count() else None
        counts = sizes if known is None else np.add.reduceat(known.astype(np.int64), starts)
        sums[f"{influence.name}__rows_in_cluster"] = counts
    first = pl.Series(starts, dtype=pl.UInt32)
    table = pl.DataFrame({GROUP: rows[GROUP].gather(first), CLUSTER: clusters[starts], **sums})
    return table.sort(GROUP, maintain_order=True)


def count_all_rows(wanted: Sequence[Influence], groups: GroupTotals) -> pl.DataFrame:
    """Return how many rows each value of each group is made from."""
    columns = {
        f"{each.name}__all": [float(totals.get(each.rows) or 0) for totals in groups.values()]
        for each in wanted
        if not each.powers
    }
    schema = {GROUP: pl.String(), **dict.fromkeys(columns, pl.Float64())}
    return pl.DataFrame({GROUP: list(groups), **columns}, schema=schema)


def sum_beyond_rows(clusters: Frame, wanted: Sequence[Influence]) -> Frame:
    """Return what clusters add to the squares of their rows, and how many rows are not first.

    And what they add to the powers of the sizes: a row by itself is of size 1, or as it weighs.
    The clusters carry how many rows there are in all (`count_all_rows`).
    """
    return sum_by_group(clusters, _express_beyond_rows(wanted))


def _express_beyond_rows(wanted: Sequence[Influence]) -> dict[str, pl.Expr]:
    added: dict[str, pl.Expr] = {}
    for influence in wanted:
        name = influence.name
        effect, count = pl.col(name), pl.col(f"{name}__rows_in_cluster")
        squares = pl.col(f"{name}__row_power_2")
        is_repeated = pl.when(count > 1)
        added[f"{name}__added_by_clusters"] = effect * effect - squares
        added[f"{name}__added_cubes"] = effect**3 - pl.col(f"{name}__row_power_3")
        added[f"{name}__further_rows"] = is_repeated.then(count - 1).otherwise(0)
        size = effect if influence.powers else count.cast(pl.Float64)
        for power in SIZES:
            alone = pl.col(f"{name}__row_power_{power}") if influence.powers else size
            added[f"{name}__added_size_{power}"] = size**power - alone
        others = is_repeated.then(count - 1).otherwise(1)  # never by 0
        rest = (squares * count - effect * effect) / others
        added[name_within_tasks(name)] = is_repeated.then(rest).otherwise(0.0)
        added[name_repeated_tasks(name)] = is_repeated.then(1).otherwise(0)
        if not influence.powers:
            added |= _express_shares(name)
    return added


def _express_shares(name: str) -> dict[str, pl.Expr]:
    """Return what clusters add to the sums that CR2 and its degrees of freedom take."""
    effect, count = pl.col(name), pl.col(f"{name}__rows_in_cluster")
    squares, rows = pl.col(f"{name}__row_power_2"), pl.col(f"{name}__all")
    is_repeated = pl.when(count > 1)
    share = pl.min_horizontal(count / rows, pl.lit(_NEARLY_ALL))
    alone = pl.min_horizontal(1 / rows, pl.lit(_NEARLY_ALL))
    added = {
        name_inside(name): squares - effect * effect / count,
        name_corrected(name): effect * effect / (1 - share) - squares / (1 - alone),
    }
    added |= {
        name_share_total(name, i, j): share**i / (1 - share) ** j
        - count * alone**i / (1 - alone) ** j
        for i, j in SHARE_SUMS
    }
    return {total: is_repeated.then(each).otherwise(0.0) for total, each in added.items()}


def add_spreads(groups: GroupTotals, wanted: Sequence[Influence]) -> None:
    """Add the spread of each value and the number of its clusters to the group's totals."""
    for totals in groups.values():
        for influence in wanted:
            n = totals.get(influence.rows, 0)
            if n:
                _add_spread(totals, influence, int(n))


def _add_spread(totals: dict[str, float], influence: Influence, n: int) -> None:
    """Add one spread; if all rows are of one cluster, each row counts as its own."""
    name, squares = influence.name, influence.squares(totals)
    all_squares = squares
    clusters = n - int(totals.get(f"{name}__further_rows", 0))
    together = clusters > 1 or n == 1
    if together:
        squares += totals.get(f"{name}__added_by_clusters", 0.0)
        if name_cubes(name) in totals:
            totals[name_cubes(name)] += totals.get(f"{name}__added_cubes", 0.0)
    per = totals[influence.per] if influence.per else n
    totals[f"{name}__spread"] = max(0.0, squares) / (per * per) if per else 0.0
    totals[f"{name}__clusters"] = clusters if together else n
    if together and 1 < clusters < n and not influence.powers:
        totals[name_squares(name)] = max(0.0, squares)
        _add_shares(totals, name, n, all_squares)
    totals[name_one_cluster(name)] = not together
    totals[f"{name}__size"] = per if influence.powers else n
    for number, power in enumerate(SIZES):
        alone = totals[influence.powers[number]] if influence.powers else n
        added = totals.get(f"{name}__added_size_{power}", 0.0) if together else 0.0
        totals[name_size_total(name, power)] = alone + added


def _add_shares(totals: dict[str, float], name: str, n: int, squares: float) -> None:
    """Complete the sums of CR2 with the rows that are clusters of their own."""
    totals[name_all_squares(name)] = squares
    totals[name_corrected(name)] = squares * n / (n - 1) + totals.get(name_corrected(name), 0.0)
    for i, j in SHARE_SUMS:
        total = name_share_total(name, i, j)
        totals[total] = n * n**-i / (1 - 1 / n) ** j + totals.get(total, 0.0)


def name_within_tasks(name: str) -> str:
    """Return the total of what runs add to the variance of a sum: Σ runs · variance of a task."""
    return f"{name}__within_tasks"


def name_repeated_tasks(name: str) -> str:
    """Return the total that counts the tasks with several runs."""
    return f"{name}__repeated_tasks"


def sum_second_pass(
    store: GroupedRows,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, pl.DataFrame],
) -> Iterator[pl.DataFrame]:
    """Yield what clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside = select_key_totals(
        {aggregate: keyed_tables[aggregate].lazy() for aggregate in keyed_tables}, wanted
    )
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]
    codes = store.codes

    def join(rows: Frame, table: pl.DataFrame, on: Sequence[str]) -> Frame:
        coded = codes.encode_groups(table)
        return (
            join_by_number(rows, coded, len(codes))
            if [*on] == [GROUP]
            else join_table(rows, coded, on)
        )

    def sum_part(part: pl.DataFrame) -> list[pl.DataFrame]:
        rows = TaskCounts(part).repeated if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height:
            return []
        moved = add_effects(rows.lazy(), wanted, groups, beside, join)
        effects: pl.DataFrame = moved.collect(engine="in-memory")
        clusters = sum_cluster_effects(effects.sort(CLUSTER, maintain_order=True), wanted)
        return [apply_steps(clusters, step) if cluster == TASK else clusters]

    if not wanted:
        return
    all_rows = count_all_rows(wanted, groups)

    def step(clusters: Frame) -> Frame:
        return sum_beyond_rows(join(clusters, all_rows, [GROUP]), wanted)

    of_parts = store.map_parts(sum_part, [GROUP, cluster, *features])
    tables = [table for of_part in of_parts for table in of_part]
    if tables and cluster == TASK:
        yield store.codes.decode_groups(sum_tables(tables, [GROUP]))
    elif tables:
        yield store.codes.decode_groups(apply_steps(sum_tables(tables, [GROUP, CLUSTER]), step))
