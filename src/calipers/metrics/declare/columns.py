"""Columns: features of records, and sums of groups, by a function or by an expression.

Polars and narwhals spell expressions alike, but narwhals takes twenty times as long to translate
one as Polars takes to build it, which is most of the work where rows are few. So a frame of Polars
is given its own; one of Spark goes through narwhals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import narwhals as nw
import polars as pl

from calipers.metrics.declare.declaration import GROUP, Feature, Frame

Express = Callable[[Any], Mapping[str, Any]]
"""Returns expressions by the names of their columns, in terms of `polars` or of `narwhals`."""


def add_columns(frame: Frame, express: Express) -> Frame:
    """Return the frame with the columns."""
    own, library = _open(frame)
    made: Frame = nw.from_native(own.with_columns(**express(library)), pass_through=True)
    return made


def sum_by_group(frame: Frame, express: Express) -> Frame:
    """Return the sum of each of the columns, a row per group."""
    own, library = _open(frame)
    columns = express(library)
    sums = own.with_columns(**columns).group_by(GROUP).agg(library.col(*columns).sum())
    made: Frame = nw.from_native(sums, pass_through=True)
    return made


def _open(frame: Frame) -> tuple[Any, Any]:
    """Return the frame of Polars and Polars, or the frame as it is and narwhals."""
    return (frame.to_native(), pl) if frame.implementation.is_polars() else (frame, nw)


def declare_recorded(name: str) -> Feature:
    """Return the feature that is the record's own number."""
    return Feature(name, (name,), lambda _: pl.col(name))


def declare_part(name: str, of: Feature, part: str) -> Feature:
    """Return the feature that is one part of another, whose values are structs."""
    assert isinstance(of.dtype, pl.Struct)
    dtype = of.dtype.to_schema()[part]
    assert isinstance(dtype, pl.DataType)
    return Feature(name, (of,), lambda _: pl.col(of.name).struct.field(part), dtype)


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
