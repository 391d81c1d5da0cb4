"""Columns: features of records, and sums of groups, by expressions or by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import GROUP, Feature


def sum_by_group(frame: pl.LazyFrame, columns: Mapping[str, pl.Expr]) -> pl.LazyFrame:
    """Return the sum of each of the columns, a row per group."""
    return frame.with_columns(**columns).group_by(GROUP).agg(pl.col(*columns).sum())


def declare_recorded(name: str) -> Feature:
    """Return the feature that is the record's own number."""
    return Feature(name, (name,), lambda _: pl.col(name))


def declare_part(name: str, of: Feature, part: str, *, dtype: pl.DataType | None = None) -> Feature:
    """Return the feature that is one part of another, whose values are structs."""
    assert isinstance(of.dtype, pl.Struct)
    own = of.dtype.to_schema()[part]
    assert isinstance(own, pl.DataType)
    return Feature(name, (of,), lambda _: pl.col(of.name).struct.field(part), dtype or own)


def map_known(
    column: pl.Expr, work: Callable[[pl.Series], pl.Series], dtype: pl.DataType
) -> pl.Expr:
    """Return `work` on the column, which gives null for null; not called where all is null.

    Most files lack most fields: what the function would load and compile is not needed then.
    """

    def apply(values: pl.Series) -> Any:
        if values.null_count() == len(values):
            return pl.repeat(None, len(values), dtype=dtype, eager=True).alias(values.name)
        return work(values)

    return column.map_batches(apply, return_dtype=dtype)
