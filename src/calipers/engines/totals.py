"""What an engine gives back: every group's totals, by name."""

from __future__ import annotations

from collections.abc import Iterable

import narwhals as nw
import polars as pl

from calipers.engines.plan import FAILED, IDENTITY, Plan, has
from calipers.metrics.declaration import GROUP, TASK, Aggregate, Frame, Rank

RECORDS = "records"
ERRORS = "errors"
REPEATED = "repeated_identity"

GroupTotals = dict[str, dict[str, float]]


def housekeeping(plan: Plan) -> tuple[Aggregate, ...]:
    """What every run counts: records, failed calls, which fields are there, ids that repeat."""
    counted = Aggregate(
        features=(),
        totals={
            RECORDS: nw.len().cast(nw.Int64),
            ERRORS: nw.col(FAILED).cast(nw.Int64).sum(),
            **{has(name): nw.col(has(name)).cast(nw.Int64).sum() for name in plan.watched},
            **{
                rank.count_name: nw.col(rank.feature.name).count().cast(nw.Int64)
                for rank in plan.ranks
            },
        },
    )
    identities = Aggregate(
        features=(),
        keys=(TASK, IDENTITY),
        where=lambda: ~nw.col(TASK).is_null(),
        totals={"n": nw.len().cast(nw.Int64)},
        finish=((_repeated,),),
    )
    return counted, identities


def _repeated(identities: Frame) -> Frame:
    return (
        identities.filter(nw.col("n") > 1)
        .group_by(GROUP)
        .agg((nw.col("n") - 1).sum().alias(REPEATED))
    )


def keyed(rows: Frame, aggregate: Aggregate) -> Frame:
    """The first step of an aggregate: totals per group and key."""
    if aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    named = [total.alias(name) for name, total in aggregate.totals.items()]
    return rows.group_by(GROUP, *aggregate.keys).agg(*named)


def merged(aggregates: Iterable[Aggregate]) -> list[Aggregate]:
    """All aggregates without keys as one, so that they take one pass; the others as they are."""
    plain: dict[str, nw.Expr] = {}
    others: list[Aggregate] = []
    for aggregate in aggregates:
        if aggregate.keys or aggregate.where is not None:
            others.append(aggregate)
        else:
            plain |= aggregate.totals
    return [Aggregate(features=(), totals=plain), *others]


def add_totals(groups: GroupTotals, table: pl.DataFrame) -> None:
    """Put a table with one row per group into the groups' totals."""
    for row in table.iter_rows(named=True):
        totals = groups.setdefault(row.pop(GROUP), {})
        totals.update((name, 0 if total is None else total) for name, total in row.items())


def summed(tables: Iterable[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """The sum of additive tables, always in the same order."""
    rows = pl.concat(tables)
    return rows.group_by(keys, maintain_order=True).agg(pl.exclude(keys).sum()).sort(keys)


def rank_counts(groups: GroupTotals, rank: Rank) -> dict[str, int]:
    """How many values of a rank's feature each group has, where it has any."""
    counts = {group: int(totals.get(rank.count_name, 0)) for group, totals in groups.items()}
    return {group: count for group, count in counts.items() if count}
