"""The value at a rank of each group: exact, without sorting a group or holding it in one place.

Rows are counted by the upper 16 bits of their value's sort key, which tells in which bucket the
rank lies; then, within it, by the upper 32 bits; then by the value itself, at once where few rows
are left. Every count is a plain group-by, so the same steps run on the parts of a table and on a
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import polars as pl

from calipers.metrics.declare.declaration import GROUP, Feature, Frame

KEY, BUCKET, COUNT = "_key", "_bucket", "_n"
_NAME, _POSITION, _FOUND = "_name", "_position", "_found"
_DIGIT = 2**16
_FEW = 200_000  # so many rows may as well be counted value by value at once

Count = Callable[[Frame], Frame]
"""Counts rows: gives group, bucket, key and count."""

Tally = Callable[[Mapping[Feature, Count]], Mapping[Feature, pl.DataFrame]]
"""Runs a count of each feature over the whole table, all in one pass."""

JoinSmall = Callable[[Frame, pl.DataFrame], Frame]
"""Joins the table's rows with a few rows of our own, on the group."""

Position = tuple[str, str, int]
"""A place, from 1, among the values of a group: asked for by group and name."""


def sort_key(feature: Feature) -> pl.Expr:
    """Return the upper 32 bits of a double, arranged so that they sort as the numbers do."""
    bits = (pl.col(feature.name) + 0.0).reinterpret(dtype=pl.Int64)  # + 0.0: no minus zero
    key = pl.when(bits < 0).then(-(2**63) - bits - 1).otherwise(bits)
    return (key // 2**32).alias(_name_coarse(feature))


def _name_coarse(feature: Feature) -> str:
    """Return the column with the upper half of a number's sort key."""
    return f"_coarse_{feature.name}"


class CountedRanks:
    """Looks values up by counting; all features together, so that few passes are made."""

    def __init__(self, tally: Tally, join_small: JoinSmall, rows: int) -> None:
        self._tally = tally
        self._join = join_small
        self._rows = rows  # of the whole table
        self._first: Mapping[Feature, pl.DataFrame] = {}

    def declare_first(self, features: Iterable[Feature]) -> dict[Feature, Count]:
        """Return the first count of each feature, which serves any position."""
        return {each: _Search(each, (), self._rows).count(self._join) for each in features}

    def take_first(self, tables: Mapping[Feature, pl.DataFrame]) -> None:
        """Take the first counts of all features, before any position is looked up."""
        self._first = tables

    def select(
        self, wanted: Mapping[Feature, Sequence[Position]]
    ) -> Iterator[tuple[str, str, float]]:
        """Yield each feature's values at some positions, each with its group and name."""
        searches = {
            feature: _Search(feature, positions, self._rows)
            for feature, positions in wanted.items()
            if positions
        }
        for feature, search in searches.items():
            search.narrow(self._first[feature])
        while due := {each: search for each, search in searches.items() if search.is_open}:
            counts = {feature: search.count(self._join) for feature, search in due.items()}
            for feature, table in self._tally(counts).items():
                due[feature].narrow(table)
        for search in searches.values():
            yield from search.found.select(GROUP, _NAME, _FOUND).iter_rows()


class _Search:
    """Positions of a feature on the way to their values, by steps that tell ever more apart."""

    def __init__(self, feature: Feature, positions: Sequence[Position], rows: int) -> None:
        schema = {GROUP: pl.String, _NAME: pl.String, _POSITION: pl.Int64}
        self.found = pl.DataFrame(list(positions), schema=schema, orient="row")
        self._value = pl.col(feature.name)
        key = pl.col(_name_coarse(feature))
        self._steps = [key // _DIGIT, key, self._value]  # those ahead
        self._before: pl.Expr | None = None
        self._skip_to_values(rows)

    def _skip_to_values(self, rows: int) -> None:
        """Count value by value at once where few rows are left to look at."""
        if rows <= _FEW:
            self._steps = self._steps[-1:]

    @property
    def is_open(self) -> bool:
        """Whether the values are not yet known."""
        return bool(self._steps)

    def count(self, join: JoinSmall) -> Count:
        """Return the next count: of rows by a step, among those where the step before was found."""
        return _count(self._value, self._steps[0], self._before, self.found, join)

    def narrow(self, table: pl.DataFrame) -> None:
        """Take the counts: which key holds each position, and the position left within it."""
        self.found = _narrow(table, self.found)
        self._before = self._steps.pop(0)
        if len(self._steps) > 1:
            left = self.found.unique([GROUP, _FOUND])[COUNT].sum()
            self._skip_to_values(int(left))


def _count(
    value: pl.Expr, step: pl.Expr, before: pl.Expr | None, found: pl.DataFrame, join: JoinSmall
) -> Count:
    """Count rows by `step`, among those whose step before was one of those found."""
    keys = [] if before is None else found[_FOUND].unique().to_list()
    buckets = None if before is None else found.select(GROUP, _FOUND).unique(maintain_order=True)

    def count(rows: Frame) -> Frame:
        rows = rows.filter(~value.is_null())
        if before is None or buckets is None:
            keyed = rows.with_columns(step.cast(pl.Float64).alias(KEY), pl.lit(0.0).alias(BUCKET))
        else:
            rows = rows.filter(before.cast(pl.Float64).is_in(keys))  # most rows go before the join
            rows = join(rows, buckets).filter(before == pl.col(_FOUND))
            keyed = rows.with_columns(
                step.cast(pl.Float64).alias(KEY), pl.col(_FOUND).alias(BUCKET)
            )
        return keyed.group_by(GROUP, BUCKET, KEY).agg(pl.len().cast(pl.Int64).alias(COUNT))

    return count


def _narrow(table: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return which key holds each position, and the position left within it."""
    bucket = pl.col(_FOUND) if _FOUND in found.columns else pl.lit(0.0)
    reached = pl.col(COUNT).cum_sum().over(GROUP, BUCKET, order_by=KEY)
    return (
        table.with_columns(reached.alias("_reached"))
        .join(
            found.with_columns(bucket.alias(BUCKET)).drop(COUNT, strict=False), on=[GROUP, BUCKET]
        )
        .filter(pl.col("_reached") >= pl.col(_POSITION))
        .sort(GROUP, _NAME, KEY)
        .unique([GROUP, _NAME], keep="first", maintain_order=True)
        .select(
            GROUP,
            _NAME,
            pl.col(KEY).alias(_FOUND),
            (pl.col(_POSITION) - pl.col("_reached") + pl.col(COUNT)).alias(_POSITION),
            COUNT,
        )
    )
