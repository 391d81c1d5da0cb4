"""How far the clusters of rows move each value: the second pass, behind every error bar.

The first pass gives totals; with them each row's influence on a value is known. Influences are
added up within each cluster, and their squares over the clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import narwhals as nw
import polars as pl

from calipers.engines.totals import GroupTotals
from calipers.metrics.declaration import CLUSTER, GROUP, Aggregate, Frame, Influence, total_column

JoinTable = Callable[[Frame, "pl.DataFrame | Frame", Sequence[str]], Frame]
"""Joins rows with a table of totals: all rows stay, in their order."""


def influences(
    rows: Frame,
    wanted: Sequence[Influence],
    groups: GroupTotals,
    keyed: Mapping[Aggregate, pl.DataFrame | Frame],
    join: JoinTable,
) -> Frame:
    """Each row's group, cluster and influence on every value."""
    rows = join(rows, _group_table(wanted, groups), [GROUP])
    for aggregate, table in keyed.items():
        rows = join(rows, table, [GROUP, *aggregate.keys])
    return rows.select(GROUP, CLUSTER, *(each.effect.alias(each.name) for each in wanted))


def _group_table(wanted: Sequence[Influence], groups: GroupTotals) -> pl.DataFrame:
    """The totals that influences read, a row per group; no rows to divide by is a null."""
    names = sorted({name for influence in wanted for name in influence.reads})
    columns = {
        total_column(name): [_known(totals, name) for totals in groups.values()] for name in names
    }
    schema = {GROUP: pl.String(), **dict.fromkeys(columns, pl.Float64())}
    return pl.DataFrame({GROUP: list(groups), **columns}, schema=schema)


def _known(totals: Mapping[str, float], name: str) -> float | None:
    is_count = name.endswith("__n")
    value = totals.get(name)
    return None if value is None or (is_count and not value) else float(value)


def keyed_columns(aggregate: Aggregate, wanted: Sequence[Influence]) -> dict[str, str]:
    """The totals per key that influences read: their names, and the columns they stand in."""
    names = {name for each in wanted if each.keyed is aggregate for name in each.keyed_reads}
    return {name: total_column(name) for name in sorted(names)}


def per_cluster(rows: Frame, wanted: Sequence[Influence]) -> Frame:
    """The influence of each cluster; `rows` all have one."""
    names = [each.name for each in wanted]
    return rows.group_by(GROUP, CLUSTER).agg(
        *(nw.col(name).sum() for name in names),
        *(nw.col(name).count().cast(nw.Int64).alias(_count(name)) for name in names),
    )


def of_rows(rows: Frame, wanted: Sequence[Influence]) -> Frame:
    """The squares of rows that are clusters of their own, per group."""
    names = [each.name for each in wanted]
    return (
        rows.with_columns(
            **{_spread(name): nw.col(name) * nw.col(name) for name in names},
        )
        .group_by(GROUP)
        .agg(
            *(nw.col(_spread(name)).sum() for name in names),
            *(nw.col(name).count().cast(nw.Int64).alias(_clusters(name)) for name in names),
        )
    )


def of_clusters(clusters: Frame, wanted: Sequence[Influence]) -> Frame:
    """The squares of the clusters' influences, per group."""
    names = [each.name for each in wanted]
    used = {name: (nw.col(_count(name)) > 0).cast(nw.Int64) for name in names}
    return (
        clusters.with_columns(
            **{_spread(name): nw.col(name) * nw.col(name) for name in names},
            **{_clusters(name): used[name] for name in names},
        )
        .group_by(GROUP)
        .agg(
            *(nw.col(_spread(name)).sum() for name in names),
            *(nw.col(_clusters(name)).sum() for name in names),
        )
    )


def _spread(name: str) -> str:
    return f"{name}__spread"


def _clusters(name: str) -> str:
    return f"{name}__clusters"


def _count(name: str) -> str:
    return f"{name}__count"
