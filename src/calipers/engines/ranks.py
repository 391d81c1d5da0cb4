"""The value at a rank of each group: exact, without sorting a group or holding it in one place.

Rows are counted by the upper 16 bits of their value's sort key, which tells in which bucket the
rank lies; then, within it, by the upper 32 bits; then by the value itself. Every count is a plain
group-by, so the same three steps run on the parts of a table and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import narwhals as nw
import polars as pl

from calipers.engines.plan import coarse
from calipers.metrics.declaration import GROUP, Frame, Rank

KEY, COUNT = "_key", "_n"
_POSITION, _FOUND = "_position", "_found"
_DIGIT = 2**16
_FEW = 200_000  # so many rows may as well be counted value by value at once

Tally = Callable[[Callable[[Frame], Frame]], pl.DataFrame]
"""Runs a count over the whole table and gives its rows: group, key and count."""

JoinSmall = Callable[[Frame, pl.DataFrame], Frame]
"""Joins the table's rows with a few rows of our own, on the group."""


def select_rank(
    rank: Rank, counts: Mapping[str, int], tally: Tally, join_small: JoinSmall
) -> dict[str, float]:
    """Each group's value at the rank; `counts` says how many values a group has, at least one."""
    if not counts:
        return {}
    value = nw.col(rank.feature.name)
    key = nw.col(coarse(rank.feature))
    steps = [key // _DIGIT, key, value] if sum(counts.values()) > _FEW else [value]
    found = pl.DataFrame(
        {GROUP: list(counts), _POSITION: [rank.position(n) for n in counts.values()]},
        schema={GROUP: pl.String, _POSITION: pl.Int64},
    )
    for number, step in enumerate(steps):
        before = steps[number - 1] if number else None
        table = tally(_count(value, step, before, found, join_small))
        found = _narrowed(table, found)
    return dict(found.select(GROUP, _FOUND).iter_rows())


def _count(
    value: nw.Expr, step: nw.Expr, before: nw.Expr | None, found: pl.DataFrame, join: JoinSmall
) -> Callable[[Frame], Frame]:
    """Count rows by `step`, among those whose step before was the one found."""
    keys = [] if before is None else found[_FOUND].unique().to_list()

    def count(rows: Frame) -> Frame:
        rows = rows.filter(~value.is_null())
        if before is not None:
            rows = rows.filter(before.cast(nw.Float64).is_in(keys))  # most rows go before the join
            rows = join(rows, found.select(GROUP, _FOUND)).filter(before == nw.col(_FOUND))
        keyed = rows.with_columns(step.cast(nw.Float64).alias(KEY))
        return keyed.group_by(GROUP, KEY).agg(nw.len().cast(nw.Int64).alias(COUNT))

    return count


def _narrowed(table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Which key holds each group's position, and the position left within it."""
    reached = pl.col(COUNT).cum_sum().over(GROUP, order_by=KEY)
    return (
        table.with_columns(reached.alias("_reached"))
        .join(found.select(GROUP, _POSITION), on=GROUP)
        .filter(pl.col("_reached") >= pl.col(_POSITION))
        .sort(GROUP, KEY)
        .unique(GROUP, keep="first", maintain_order=True)
        .select(
            GROUP,
            pl.col(KEY).alias(_FOUND),
            (pl.col(_POSITION) - pl.col("_reached") + pl.col(COUNT)).alias(_POSITION),
        )
    )
