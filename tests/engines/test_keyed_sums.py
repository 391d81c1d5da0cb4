"""Totals per group and key do not depend on the way in which they are summed."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from calipers.engines.totals import sum_by_keys, sum_keys
from calipers.metrics.declare.declaration import GROUP, Aggregate

ROWS = pl.DataFrame(
    {
        GROUP: pl.Series([0] * 500 + [2] * 500, dtype=pl.Int32).set_sorted(),
        "key": [number % 7 / 10 for number in range(1000)],
        "text": [None if number % 5 == 0 else f"t{number % 3}" for number in range(1000)],
        "same": ["s"] * 1000,
        "same_ends": [1, *range(998), 1],
        "none": pl.Series([None] * 1000, dtype=pl.Int64),
        "value": [number / 3 for number in range(1000)],
    }
)
COUNT = {"n": pl.len().cast(pl.Int64)}
SUM = {**COUNT, "sum": pl.col("value").sum()}


@pytest.mark.parametrize("totals", [COUNT, SUM], ids=["count", "sum"])
@pytest.mark.parametrize("key", ["key", "text", "same", "same_ends", "none"])
@pytest.mark.parametrize("where", [None, lambda: pl.col("value") > 100], ids=["all", "some"])
def test_sums_are_those_of_a_plain_grouping(
    totals: dict[str, pl.Expr], key: str, where: None
) -> None:
    aggregate = Aggregate(features=(), keys=(key,), totals=totals, where=where)
    plain: pl.LazyFrame = sum_keys(ROWS.lazy(), aggregate)
    assert_frame_equal(sum_by_keys(ROWS, aggregate), plain.collect().sort(GROUP, key))


def test_no_rows_give_no_totals() -> None:
    assert sum_by_keys(ROWS.clear(), Aggregate(features=(), keys=("key",), totals=SUM)).is_empty()
