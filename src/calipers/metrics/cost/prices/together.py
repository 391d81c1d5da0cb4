"""What the calls of one run cost together, where it used several models."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from calipers.metrics.cost.prices.costs import USED, price_calls
from calipers.metrics.cost.prices.table import Prices
from calipers.records.fields import FIELDS
from calipers.records.usage import Call

_ROW = "_row"


def price_together(calls: Iterable[tuple[int, Call]], prices: Prices | None) -> pl.DataFrame:
    """Return the cost of all calls of each row; null, with the model, if one is unpriced."""
    schema = {_ROW: pl.UInt32(), **{name: _get_type(name) for name in USED}}
    table = pl.DataFrame([{_ROW: row, **call} for row, call in calls], schema=schema)
    each = table.select(_ROW, "model").hstack(price_calls(table.drop(_ROW), prices))
    unknown = pl.col("cost_usd").is_null()
    return each.group_by(_ROW, maintain_order=True).agg(
        pl.when(~unknown.any()).then(pl.col("cost_usd").sum()).alias("cost_usd"),
        pl.col("by_file").any(),
        pl.col("by_list").any(),
        pl.col("cache_unpriced").any(),
        pl.col("model").filter(unknown).min().alias("unpriced"),
    )


def _get_type(name: str) -> pl.DataType:
    return FIELDS[name].dtype
