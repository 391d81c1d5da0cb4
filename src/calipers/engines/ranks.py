"""The value at a rank of each group: exact, without sorting a group or holding it in one place.

Rows are counted by the upper 16 bits of their value's sort key, which tells in which bucket the
rank lies; then, within it, by the upper 32 bits; then by the value itself. Every count is a plain
group-by, so the same three steps run on the parts of a table and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import narwhals as nw
import polars as pl

from calipers.engines.plan import name_coarse
from calipers.metrics.declare.declaration import GROUP, Feature, Frame

KEY, BUCKET, COUNT = "_key", "_bucket", "_n"
_NAME, _POSITION, _FOUND = "_name", "_position", "_found"
_DIGIT = 2**16
_FEW = 200_000  # so many rows may as well be counted value by value at once

Tally = Callable[[Callable[[Frame], Frame]], pl.DataFrame]
"""Runs a count over the whole table and gives its rows: group, bucket, key and count."""

JoinSmall = Callable[[Frame, pl.DataFrame], Frame]
"""Joins the table's rows with a few rows of our own, on the group."""


def select_ranks(
    feature: Feature,
    positions: Sequence[tuple[str, str, int]],
    tally: Tally,
    join_small: JoinSmall,
    rows: int,
) -> Iterator[tuple[str, str, float]]:
    """Yield the feature's values at some positions, from 1, among those of a group.

    A position is asked for by group and name, and given back so; `rows` is how many values there
    are in all.
    """
    if not positions:
        return
    value = nw.col(feature.name)
    key = nw.col(name_coarse(feature))
    steps = [key // _DIGIT, key, value] if rows > _FEW else [value]
    found = pl.DataFrame(
        list(positions),
        schema={GROUP: pl.String, _NAME: pl.String, _POSITION: pl.Int64},
        orient="row",
    )
    for number, step in enumerate(steps):
        before = steps[number - 1] if number else None
        table = tally(_count(value, step, before, found, join_small))
        found = _narrow(table, found)
    yield from found.select(GROUP, _NAME, _FOUND).iter_rows()


def _count(
    value: nw.Expr, step: nw.Expr, before: nw.Expr | None, found: pl.DataFrame, join: JoinSmall
) -> Callable[[Frame], Frame]:
    """Count rows by `step`, among those whose step before was one of those found."""
    keys = [] if before is None else found[_FOUND].unique().to_list()
    buckets = None if before is None else found.select(GROUP, _FOUND).unique(maintain_order=True)

    def count(rows: Frame) -> Frame:
        rows = rows.filter(~value.is_null())
        if before is None or buckets is None:
            keyed = rows.with_columns(step.cast(nw.Float64).alias(KEY), nw.lit(0.0).alias(BUCKET))
        else:
            rows = rows.filter(before.cast(nw.Float64).is_in(keys))  # most rows go before the join
            rows = join(rows, buckets).filter(before == nw.col(_FOUND))
            keyed = rows.with_columns(
                step.cast(nw.Float64).alias(KEY), nw.col(_FOUND).alias(BUCKET)
            )
        return keyed.group_by(GROUP, BUCKET, KEY).agg(nw.len().cast(nw.Int64).alias(COUNT))

    return count


def _narrow(table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return which key holds each position, and the position left within it."""
    bucket = pl.col(_FOUND) if _FOUND in found.columns else pl.lit(0.0)
    reached = pl.col(COUNT).cum_sum().over(GROUP, BUCKET, order_by=KEY)
    return (
        table.with_columns(reached.alias("_reached"))
        .join(found.with_columns(bucket.alias(BUCKET)), on=[GROUP, BUCKET])
        .filter(pl.col("_reached") >= pl.col(_POSITION))
        .sort(GROUP, _NAME, KEY)
        .unique([GROUP, _NAME], keep="first", maintain_order=True)
        .select(
            GROUP,
            _NAME,
            pl.col(KEY).alias(_FOUND),
            (pl.col(_POSITION) - pl.col("_reached") + pl.col(COUNT)).alias(_POSITION),
        )
    )
