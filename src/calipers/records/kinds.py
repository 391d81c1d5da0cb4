"""What the fields of a source hold, as far as its first rows or its schema tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import polars as pl

from calipers.records.batch import Source
from calipers.records.rows import scalar_type

Holds = Literal["numbers", "booleans", "text"]

_HOLDS: dict[type, Holds] = {float: "numbers", bool: "booleans", str: "text"}


def fields_in(source: Source) -> dict[str, set[Holds]]:
    """Return the source's fields and what each holds; those inside objects by their paths.

    A field without a value so far holds nothing; a source that does not tell has no fields here.
    """
    if hasattr(source, "first_rows"):
        found: dict[str, set[Holds]] = {}
        for row in source.first_rows():
            for name, value in _values(row):
                kind = scalar_type(value)
                found.setdefault(name, set()).update(() if kind is None else (_HOLDS[kind],))
        return found
    if hasattr(source, "schema"):
        return {name: {_held(dtype)} for name, dtype in _columns(source.schema())}
    return {}


def _values(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _values(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _columns(
    schema: Mapping[str, pl.DataType], prefix: str = ""
) -> Iterator[tuple[str, pl.DataType]]:
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Struct):
            inside = {field.name: field.dtype for field in dtype.fields}
            yield from _columns(inside, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            yield f"{prefix}{name}", dtype


def _held(dtype: pl.DataType) -> Holds:
    if dtype.is_numeric():
        return "numbers"
    return "booleans" if dtype == pl.Boolean else "text"
