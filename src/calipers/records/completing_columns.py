"""The same as `completing`, for tables: whole columns at once where their types allow it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from calipers.records.completing import (
    DURATION,
    TIMES,
    TRACE,
    TRACE_PARTS,
    complete_row,
    parse_seconds_in,
)
from calipers.records.fields import BadValue

_NESTED = {TRACE: TRACE_PARTS, DURATION: (*TIMES, TRACE)}


def complete_column(column: pl.Series, frame: pl.DataFrame) -> tuple[pl.Series, dict[int, str]]:
    """Return a trace or a duration where rows give it in another way, and what is wrong in which.

    The columns of `frame` are as the table has them; those of traces are JSON text or objects.
    """
    inputs = [name for name in _NESTED[column.name] if name in frame.columns]
    lacking = column.is_null()
    if not inputs or not lacking.any():
        return column, {}
    if column.name == DURATION and set(TIMES) <= set(inputs):
        seconds = _subtract_times(frame)
        column = column.zip_with(~lacking | (seconds < 0).fill_null(value=False), seconds)
        lacking = column.is_null()
    given = frame.select(inputs)
    there = given.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    problems: dict[int, str] = {}
    found: dict[int, Any] = {}
    for index in (lacking & there).arg_true():
        row = {name: _as_json(value) for name, value in given.row(index, named=True).items()}
        try:
            value = complete_row(row, (column.name,)).get(column.name)
        except BadValue as problem:
            problems[index] = str(problem)
            continue
        if value is not None:
            found[index] = value
    return _with(column, found), problems


def _with(column: pl.Series, found: dict[int, Any]) -> pl.Series:
    if not found:
        return column
    values = [_dump(value) for value in found.values()]
    return column.scatter(list(found), pl.Series(values, dtype=column.dtype))


def _dump(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, dict) else value


def _subtract_times(frame: pl.DataFrame) -> pl.Series:
    """Return the seconds between two columns of times; null if one is not a time."""
    start, end = (_convert_times(frame[name]) for name in TIMES)
    return (end - start).alias(DURATION)


def _convert_times(times: pl.Series) -> pl.Series:
    if times.dtype == pl.Datetime:
        return times.dt.epoch("us").cast(pl.Float64) / 1e6
    if times.dtype.is_numeric():
        return times.cast(pl.Float64).fill_nan(None)
    if times.dtype == pl.String:
        return times.to_frame("time").select(parse_seconds_in(pl.col("time"))).to_series()
    return pl.Series(times.name, [None] * len(times), dtype=pl.Float64)


def _as_json(value: Any) -> Any:
    """Return a value as in JSON: a table's time as ISO 8601."""
    if isinstance(value, pl.Series):
        return value.to_list()
    return value.isoformat() if hasattr(value, "isoformat") else value
