"""What the calls of one run cost together, where it used several models."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from calipers.metrics.cost.prices.costs import USED, priced
from calipers.metrics.cost.prices.table import Prices
from calipers.records.fields import FIELDS
from calipers.records.usage import Call

_ROW = "_row"


def priced_together(calls: Iterable[tuple[int, Call]], prices: Prices | None) -> pl.DataFrame:
    """The cost of all calls of a row, by its number: null with the model where one has no price."""
    schema = {_ROW: pl.UInt32(), **{name: _type(name) for name in USED}}
    table = pl.DataFrame([{_ROW: row, **call} for row, call in calls], schema=schema)
    each = table.select(_ROW, "model").hstack(priced(table.drop(_ROW), prices))
    unknown = pl.col("cost_usd").is_null()
    return each.group_by(_ROW, maintain_order=True).agg(
        pl.when(~unknown.any()).then(pl.col("cost_usd").sum()).alias("cost_usd"),
        pl.col("by_file").any(),
        pl.col("by_list").any(),
        pl.col("cache_unpriced").any(),
        pl.col("model").filter(unknown).min().alias("unpriced"),
    )


def _type(name: str) -> pl.DataType:
    return FIELDS[name].dtype
