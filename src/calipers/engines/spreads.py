"""How far the clusters of rows move each value: what every error bar is made of.

Over rows that are clusters of their own the squares of the influences follow from the totals. Rows
that share a cluster move a value together: for these, a second pass adds their influences up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import narwhals as nw
import polars as pl

from calipers.engines.totals import GroupTotals, within_groups
from calipers.metrics.declaration import (
    CLUSTER,
    GROUP,
    Aggregate,
    Frame,
    Influence,
    centre_column,
    total_column,
)

JoinTable = Callable[[Frame, "pl.DataFrame | Frame", Sequence[str]], Frame]
"""Joins rows with a table of totals: all rows stay, in their order."""


def effects(
    rows: Frame,
    wanted: Sequence[Influence],
    groups: GroupTotals,
    keyed: Mapping[Aggregate, pl.DataFrame | Frame],
    join: JoinTable,
) -> Frame:
    """Each row's group, cluster and effect on every value."""
    rows = join(rows, _centres(wanted, groups), [GROUP])
    for aggregate, table in keyed.items():
        rows = join(rows, table, [GROUP, *aggregate.keys])
    return rows.select(GROUP, CLUSTER, *(each.effect.alias(each.name) for each in wanted))


def join_table(rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str]) -> Frame:
    """The join of tables in memory."""
    assert isinstance(table, pl.DataFrame)
    native: pl.LazyFrame = rows.to_native()
    return nw.from_native(native.join(table.lazy(), on=list(on), how="left", maintain_order="left"))


def _centres(wanted: Sequence[Influence], groups: GroupTotals) -> pl.DataFrame:
    columns = {
        centre_column(name): [
            float(number(totals)) if totals.get(each.rows) else None for totals in groups.values()
        ]
        for each in wanted
        for name, number in {each.name: each.centre, **each.numbers}.items()
    }
    schema = {GROUP: pl.String(), **dict.fromkeys(columns, pl.Float64())}
    return pl.DataFrame({GROUP: list(groups), **columns}, schema=schema)


def beside_rows(table: Frame, aggregate: Aggregate, wanted: Sequence[Influence]) -> Frame | None:
    """What effects read of an aggregate's totals per key: a row per group and key."""
    readers = [each for each in wanted if each.keyed is aggregate]
    if not readers:
        return None
    for step in dict.fromkeys(each.keyed_step for each in readers if each.keyed_step):
        table = step(table)
    names = sorted({name for each in readers for name in each.keyed_reads})
    columns = (nw.col(name).alias(total_column(name)) for name in names)
    return table.select(GROUP, *aggregate.keys, *columns)


def per_cluster(rows: Frame, wanted: Sequence[Influence]) -> Frame:
    """The effect of each cluster, the squares of its rows' effects, and how many there are."""
    names = [each.name for each in wanted]
    totals = [
        *(nw.col(name).sum() for name in names),
        *(nw.col(_squares(name)).sum() for name in names),
        *(nw.col(name).count().cast(nw.Int64).alias(_count(name)) for name in names),
    ]
    squares = {_squares(name): nw.col(name) * nw.col(name) for name in names}
    return within_groups(rows.with_columns(**squares), CLUSTER, totals=totals)


def beyond_rows(clusters: Frame, wanted: Sequence[Influence]) -> Frame:
    """What clusters add to the squares of their rows, and how many rows are not the first."""
    added: dict[str, nw.Expr] = {}
    for each in wanted:
        effect, count = nw.col(each.name), nw.col(_count(each.name))
        added[_added(each.name)] = effect * effect - nw.col(_squares(each.name))
        added[_further(each.name)] = nw.when(count > 1).then(count - 1).otherwise(0)
    return (
        clusters.with_columns(**added).group_by(GROUP).agg(*(nw.col(name).sum() for name in added))
    )


def add_spreads(groups: GroupTotals, wanted: Sequence[Influence]) -> None:
    """The spread of each value and the number of its clusters, among the group's totals."""
    for totals in groups.values():
        for each in wanted:
            n = totals.get(each.rows, 0)
            if n:
                squares = each.squares(totals) + totals.get(_added(each.name), 0.0)
                per = totals[each.per] if each.per else n
                totals[f"{each.name}__spread"] = max(0.0, squares) / (per * per) if per else 0.0
                totals[f"{each.name}__clusters"] = n - totals.get(_further(each.name), 0)


def _squares(name: str) -> str:
    return f"{name}__row_squares"


def _count(name: str) -> str:
    return f"{name}__rows_in_cluster"


def _added(name: str) -> str:
    return f"{name}__added_by_clusters"


def _further(name: str) -> str:
    return f"{name}__further_rows"
