"""Output of an engine: every group's totals, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from calipers.engines.plan import FAILED, FAILURE, IDENTITY, TRUNCATED, Plan
from calipers.metrics.declare.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Frame,
    name_kept_total,
)

RECORDS = "records"
ERRORS = "errors"
TRUNCATED_REPLIES = "truncated"
FAILURES = "failures"  # failed calls that count as such
REPEATED = "repeated_identity"

_TASKS, _ALIKE = "_tasks", "_alike"
_FEW = 500_000  # so many rows more may wait to be added up

GroupTotals = dict[str, dict[str, float]]


def list_housekeeping(plan: Plan) -> tuple[Aggregate, ...]:
    """Return what every run counts: records, failed calls, repeated ids."""
    counted = Aggregate(
        features=(),
        totals={
            RECORDS: pl.len().cast(pl.Int64),
            ERRORS: pl.col(FAILED).cast(pl.Int64).sum(),
            TRUNCATED_REPLIES: pl.col(TRUNCATED).cast(pl.Int64).sum(),
            **({FAILURES: pl.col(FAILURE).cast(pl.Int64).sum()} if plan.counts_failures else {}),
            **{
                rank.count_name: pl.col(rank.feature.name).count().cast(pl.Int64)
                for rank in plan.ranks
            },
        },
    )
    identities = Aggregate(
        features=(),
        keys=(TASK, IDENTITY),
        where=lambda: ~pl.col(TASK).is_null(),
        totals={"n": pl.len().cast(pl.Int64)},
        finish=(_count_repeated,),
    )
    return counted, identities


def _count_repeated(identities: Frame) -> Frame:
    return (
        identities.filter(pl.col("n") > 1)
        .group_by(GROUP)
        .agg((pl.col("n") - 1).sum().alias(REPEATED))
    )


def sum_keys(rows: Frame, aggregate: Aggregate, by: Sequence[str] | None = None) -> Frame:
    """Return the first step of an aggregate: totals per group and key, or by some of these."""
    if aggregate.where is not None:
        rows = rows.filter(aggregate.where())
    named = [total.alias(name) for name, total in aggregate.totals.items()]
    if by is not None:
        return rows.group_by(*by).agg(*named)
    return sum_within_groups(rows, *aggregate.keys, totals=named)


def sum_within_groups(rows: Frame, *keys: str, totals: Sequence[pl.Expr]) -> Frame:
    """Return totals per group and key; a task or a cluster belongs to one group.

    Quickest where the rows are in the order of their groups, or of their tasks.
    """
    if TASK in keys or CLUSTER in keys:
        return rows.group_by(*keys).agg(pl.col(GROUP).min(), *totals)
    return rows.group_by(GROUP, *keys).agg(*totals)


def merge_aggregates(aggregates: Iterable[Aggregate], plan: Plan) -> list[Aggregate]:
    """Return aggregates without keys as one, for one pass; likewise those that count alike.

    The one carries the variance of each feature whose mean is wanted; `pooled` puts them together.
    """
    aggregates = list(aggregates)
    plain = dict(merge_plain(aggregates).totals)
    for name in _list_averaged(plan):
        plain[_name_variance(name)] = pl.col(name).cast(pl.Float64).var(ddof=0)
    alike: dict[Any, Aggregate] = {}
    for each in aggregates:
        if each.keys:
            same = (each.keys, each.where, id(each.totals)) if each.tasks else each
            tasks = alike[same].tasks if same in alike else ()
            alike[same] = replace(each, tasks=(*tasks, *each.tasks)) if tasks else each
    return [Aggregate(features=(), totals=plain), *alike.values()]


def merge_plain(aggregates: Iterable[Aggregate]) -> Aggregate:
    """Return the totals of all aggregates without keys."""
    plain = (each.totals for each in aggregates if not each.keys)
    return Aggregate(
        features=(), totals={name: total for one in plain for name, total in one.items()}
    )


def pool_parts(parts: Iterable[pl.DataFrame], plan: Plan) -> pl.DataFrame:
    """Return the sum of the parts' totals, and Σ (x − mean)² of each averaged feature."""
    rows = pl.concat(parts)
    names = _list_averaged(plan)
    sums = sum_tables([rows.drop(_name_variance(name) for name in names)], [GROUP])
    means = sums.select(
        GROUP,
        *(
            (pl.col(f"{name}__sum") / pl.col(f"{name}__n")).alias(_name_mean(name))
            for name in names
        ),
    )
    squares = [
        (
            pl.col(f"{name}__n")
            * (
                pl.col(_name_variance(name))
                + (pl.col(f"{name}__sum") / pl.col(f"{name}__n") - pl.col(_name_mean(name))) ** 2
            )
        ).alias(f"{name}__squares")
        for name in names
    ]
    around = rows.join(means, on=GROUP, maintain_order="left").select(GROUP, *squares)
    around = around.with_columns(pl.exclude(GROUP).fill_nan(None))
    return sums.join(sum_tables([around], [GROUP]), on=GROUP, maintain_order="left")


def _list_averaged(plan: Plan) -> list[str]:
    of_means = (influence.feature for influence in plan.influences)
    features = (*(feature for feature in of_means if feature is not None), *plan.described)
    return list(dict.fromkeys(feature.name for feature in features))


def _name_variance(name: str) -> str:
    return f"{name}__variance"


def _name_mean(name: str) -> str:
    return f"{name}__mean"


def add_kept(groups: GroupTotals, table: pl.DataFrame, aggregate: Aggregate) -> None:
    """Put each key's totals into the groups', under the key; the keys are few."""
    prefix, [key] = aggregate.kept_as, aggregate.keys
    assert prefix is not None
    for row in table.iter_rows(named=True):
        totals = groups.setdefault(row[GROUP], {})
        totals |= {name_kept_total(prefix, row[key], name): row[name] for name in aggregate.totals}


def add_totals(groups: GroupTotals, table: pl.DataFrame) -> None:
    """Put a table with one row per group into the groups' totals."""
    for row in table.iter_rows(named=True):
        totals = groups.setdefault(row.pop(GROUP), {})
        totals.update((name, 0 if total is None else total) for name, total in row.items())


class Sum:
    """Additive tables, added up as they come: never many more rows are held than it has."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._held: list[pl.DataFrame] = []
        self._added_up = 0

    def add(self, table: pl.DataFrame) -> None:
        """Take one more."""
        self._held.append(table)
        if sum(each.height for each in self._held) > 2 * self._added_up + _FEW:
            self._held = [self._sum()]
            self._added_up = self._held[0].height

    @property
    def table(self) -> pl.DataFrame:
        """A row per key, always in the same order."""
        return self._sum().sort(self._keys)

    def _sum(self) -> pl.DataFrame:
        by_key = pl.concat(self._held).group_by(self._keys, maintain_order=True)
        return by_key.agg(pl.exclude(self._keys).sum())


def sum_tables(tables: Iterable[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """Return the sum of additive tables, a row per key, always in the same order."""
    sums = Sum(keys)
    for table in tables:
        sums.add(table)
    return sums.table
