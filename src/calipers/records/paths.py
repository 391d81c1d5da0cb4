"""Dotted names: `meta.confidence.p_true` is a field of that name, or else a value inside `meta`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

import polars as pl

from calipers.records.fields import load_json


def look_up(row: Mapping[str, Any], name: str) -> Any:
    """Return a row's value under a name, or at the path of that name; None where there is none.

    >>> look_up({"meta": {"confidence": {"p_true": 0.5}}}, "meta.confidence.p_true")
    0.5
    """
    if name in row or "." not in name:
        return row.get(name)
    found: Any = row
    for part in name.split("."):
        if isinstance(found, str) and found[:1] == "{":  # tables hold objects as JSON text
            found = load_json(found, found)
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def find_column(name: str, columns: Collection[str]) -> str | None:
    """Return the column that holds a name, or the beginning of its path; None without one."""
    if name in columns:
        return name
    root, dot, _ = name.partition(".")
    return root if dot and root in columns else None


def read_struct(name: str, dtype: Any) -> tuple[str, Any, pl.Expr]:
    """Return the column that a path begins in, the type it is read as, and the value in it."""
    root, *parts = name.split(".")
    nested = reduce(lambda inner, part: pl.Struct({part: inner}), reversed(parts), dtype)
    value = reduce(lambda outer, part: outer.struct.field(part), parts, pl.col(root))
    return root, nested, value


def merge_structs(one: Any, other: Any) -> Any:
    """Return the type that holds the fields of two, where both are wanted of one object."""
    if not (isinstance(one, pl.Struct) and isinstance(other, pl.Struct)):
        return other
    fields = {field.name: field.dtype for field in one.fields}
    for field in other.fields:
        held = fields.get(field.name, field.dtype)
        fields[field.name] = merge_structs(held, field.dtype)
    return pl.Struct(fields)


def select_path(frame: pl.DataFrame, name: str) -> pl.Series | None:
    """Return the values at a path in a table; None if no column begins it."""
    root, *parts = name.split(".")
    if not parts or root not in frame.columns:
        return None
    column = frame[root]
    while parts and isinstance(column.dtype, pl.Struct):
        if parts[0] not in {field.name for field in column.dtype.fields}:
            return make_nulls(name, frame.height)
        column = column.struct.field(parts.pop(0))
    if not parts:
        return column.alias(name)
    if column.dtype != pl.String:
        return make_nulls(name, frame.height)
    path = ".".join(("inside", *parts))
    values = [look_up({"inside": text}, path) for text in column]
    return pl.Series(name, _unify(values), strict=False)


def _unify(values: list[Any]) -> list[Any]:
    """Return values of one type: numbers and booleans unchanged, anything mixed as text."""
    kinds = {_classify(value) for value in values if value is not None}
    if len(kinds) <= 1 and str not in kinds:
        return values
    return [
        value if value is None or isinstance(value, str) else json.dumps(value) for value in values
    ]


def _classify(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else str


def make_nulls(name: str, height: int, dtype: pl.DataType | None = None) -> pl.Series:
    """Return a column of nulls."""
    return pl.Series(name, [None], dtype=dtype).new_from_index(0, height)
