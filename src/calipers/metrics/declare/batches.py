"""Features that a function computes from a whole column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl


def map_known(
    column: pl.Expr, work: Callable[[pl.Series], pl.Series], dtype: pl.DataType
) -> pl.Expr:
    """Return `work` on the column, which gives null for null; not called where all is null.

    Most files lack most fields: what the function would load and compile is not needed then.
    """

    def of_batch(values: pl.Series) -> Any:
        if values.null_count() == len(values):
            return pl.repeat(None, len(values), dtype=dtype, eager=True).alias(values.name)
        return work(values)

    return column.map_batches(of_batch, return_dtype=dtype)
