"""The influence of each cluster of rows on each value, from which every error bar is computed.

Over rows that are clusters of their own the squares of the influences follow from the totals. Rows
that share a cluster move a value together: for these, a second pass adds their influences up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any

import polars as pl

from calipers.engines.group_codes import mark_changes
from calipers.engines.group_totals import GroupTotals, ManyGroups
from calipers.engines.plan import Plan
from calipers.engines.store import GroupedRows
from calipers.engines.totals import TaskCounts, apply_steps, collect_sorted, sum_tables
from calipers.metrics.declare.columns import Columns, evaluate, put_where
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
from calipers.statistics.elementwise import (
    apply,
    as_float,
    as_whole,
    at_least,
    choose,
    divide,
    is_anywhere,
)
from calipers.support.lazy_numpy import np

_NEARLY_ALL = 1 - 1e-9  # share of a cluster beside which nothing is left

JoinTable = Callable[[Frame, pl.DataFrame, Sequence[str]], Frame]
"""Joins rows with a table of totals: all rows stay, in their order."""


def add_effects(
    rows: Frame,
    wanted: Sequence[Influence],
    centres: pl.DataFrame,
    keyed: Mapping[Aggregate, pl.DataFrame],
    join: JoinTable,
) -> Frame:
    """Return each row's group, cluster and effect on every value, given those of its group."""
    rows = join(rows, centres, [GROUP])
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


def list_centres(wanted: Sequence[Influence], groups: GroupTotals) -> pl.DataFrame:
    """Return the groups' own numbers in the effects on every value, a row per group."""
    numbers = {
        centre_column(name): (number, influence.rows)
        for influence in wanted
        for name, number in {influence.name: influence.centre, **influence.numbers}.items()
    }
    if isinstance(groups, ManyGroups):
        totals = groups.columns
        columns: dict[str, Any] = {
            name: _take_centre(totals, *centred) for name, centred in numbers.items()
        }
    else:
        columns = {
            name: [float(n(totals)) if totals.get(rows) else None for totals in groups.values()]
            for name, (n, rows) in numbers.items()
        }
    return _make_table(groups, columns)


def _take_centre(totals: Columns, number: Callable[[Any], Any], rows: str) -> Any:
    there = totals.get(rows, 0) != 0
    if not is_anywhere(there):
        return np.full(totals.rows, np.nan)
    found = evaluate(number, totals, where=there)
    return np.where(there, found, np.nan)


def _make_table(groups: GroupTotals, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return a row per group, told by its text; of columns with NaN for null."""
    schema = {GROUP: pl.String(), **dict.fromkeys(columns, pl.Float64())}
    table = pl.DataFrame({GROUP: list(groups), **columns}, schema=schema)
    return table.with_columns(pl.exclude(GROUP).fill_nan(None))


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
    names = {f"{each.name}__all": each.rows for each in wanted if not each.powers}
    if isinstance(groups, ManyGroups):
        none = np.zeros(len(groups))
        columns: dict[str, Any] = {
            name: as_float(groups.columns.get(rows, none)) for name, rows in names.items()
        }
    else:
        columns = {
            name: [float(totals.get(rows) or 0) for totals in groups.values()]
            for name, rows in names.items()
        }
    return _make_table(groups, columns)


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


def add_spreads(blocks: Iterable[Any], wanted: Sequence[Influence]) -> None:
    """Add the spread of each value and the number of its clusters to the groups' totals."""
    for totals in blocks:
        for influence in wanted:
            n = totals.get(influence.rows, 0)
            if is_anywhere(n != 0):
                _add_spread(totals, influence, as_whole(n))


def _add_spread(totals: Any, influence: Influence, n: Any) -> None:
    """Add one spread; if all rows are of one cluster, each row counts as its own."""
    name, there = influence.name, n != 0
    all_squares = squares = evaluate(influence.squares, totals, where=there)
    clusters = n - as_whole(totals.get(f"{name}__further_rows", 0))
    together = (clusters > 1) | (n == 1)
    beyond = totals.get(f"{name}__added_by_clusters", 0.0)
    squares = choose(together, squares + beyond, squares)
    added: dict[str, Any] = {}
    if name_cubes(name) in totals:
        cubes = totals[name_cubes(name)]
        added[name_cubes(name)] = choose(
            together, cubes + totals.get(f"{name}__added_cubes", 0.0), cubes
        )
    per = totals[influence.per] if influence.per else n
    spread = divide(at_least(0.0, squares), per * per)
    added[f"{name}__spread"] = choose(per == 0, 0.0, spread)
    added[f"{name}__clusters"] = choose(together, clusters, n)
    added[name_one_cluster(name)] = together == 0
    added[f"{name}__size"] = per if influence.powers else n
    for number, exponent in enumerate(SIZES):
        alone = totals[influence.powers[number]] if influence.powers else n
        beyond = totals.get(f"{name}__added_size_{exponent}", 0.0)
        added[name_size_total(name, exponent)] = choose(together, alone + beyond, alone + 0.0)
    put_where(totals, added, there)
    unequal = together & (clusters > 1) & (clusters < n)
    if is_anywhere(unequal) and not influence.powers:
        sums = {name_squares(name): at_least(0.0, squares)}
        sums |= _complete_shares(totals, name, n, all_squares)
        put_where(totals, sums, unequal)


def _complete_shares(totals: Any, name: str, n: Any, squares: Any) -> dict[str, Any]:
    """Return the sums of CR2, completed with the rows that are clusters of their own."""
    corrected = divide(squares * n, n - 1) + totals.get(name_corrected(name), 0.0)
    sums = {name_all_squares(name): squares, name_corrected(name): corrected}
    for i, j in SHARE_SUMS:
        total = name_share_total(name, i, j)
        alone = apply(_sum_alone, n, i, j)
        sums[total] = alone + totals.get(total, 0.0)
    return sums


def _sum_alone(n: int, i: int, j: int) -> float:
    """Return Σ share^i / (1 − share)^j of n rows that are clusters of their own."""
    return n * n**-i / (1 - 1 / n) ** j if n > 1 else nan


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
    """Yield what clusters of several rows add to the spread of each value, a row per group.

    The tables of keys have groups by their numbers, and so have those that are returned.
    """
    wanted = plan.influences
    beside = select_key_totals(
        {aggregate: keyed_tables[aggregate].lazy() for aggregate in keyed_tables}, wanted
    )
    cluster = TASK if plan.cluster is None else CLUSTER
    features = [feature.name for feature in plan.features if feature.stored]
    codes = store.codes

    def join(rows: Frame, table: pl.DataFrame, on: Sequence[str]) -> Frame:
        if [*on] != [GROUP]:
            return join_table(rows, table, on)
        return join_by_number(rows, table, len(codes))

    def sum_part(part: pl.DataFrame) -> list[pl.DataFrame]:
        rows = TaskCounts(part).repeated if cluster == TASK else part
        rows = rows.filter(pl.col(cluster).is_not_null()).rename({cluster: CLUSTER})
        if not rows.height:
            return []
        moved = add_effects(rows.lazy(), wanted, centres, beside, join)
        effects: pl.DataFrame = moved.collect(engine="in-memory")
        clusters = sum_cluster_effects(effects.sort(CLUSTER, maintain_order=True), wanted)
        return [apply_steps(clusters, step) if cluster == TASK else clusters]

    if not wanted:
        return
    centres = codes.encode_groups(list_centres(wanted, groups))
    all_rows = codes.encode_groups(count_all_rows(wanted, groups))

    def step(clusters: Frame) -> Frame:
        return sum_beyond_rows(join(clusters, all_rows, [GROUP]), wanted)

    of_parts = store.map_parts(sum_part, [GROUP, cluster, *features])
    tables = [table for of_part in of_parts for table in of_part]
    if tables and cluster == TASK:
        yield sum_tables(tables, [GROUP])
    elif tables:
        yield apply_steps(sum_tables(tables, [GROUP, CLUSTER]), step)
