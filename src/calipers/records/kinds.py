"""The kinds of values in a source's fields, as far as its first rows or its schema show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

import polars as pl

from calipers.records.batch import Source
from calipers.records.fields import PROB_CORRECT, is_null
from calipers.records.rows import classify_scalar

Holds = Literal["numbers", "booleans", "text"]

# Of the rows that a source has read so far: several plans ask for the same.
_classified: WeakKeyDictionary[Source, tuple[Any, dict[str, set[Holds]]]] = WeakKeyDictionary()
_HOLDS: dict[type, Holds] = {float: "numbers", bool: "booleans", str: "text"}


def list_kinds(source: Source) -> dict[str, set[Holds]]:
    """Return the source's fields and the kinds of values in each; nested ones by their paths.

    A field without a value so far has no kind; a source without known rows has no fields here.
    """
    if hasattr(source, "read_first_rows"):
        rows = source.read_first_rows()
        known, found = _classified.get(source, (None, {}))
        if known is not rows:
            found = _classify_rows(rows)
            _classified[source] = rows, found
        return found
    if hasattr(source, "schema"):
        return {name: {_classify(dtype)} for name, dtype in _walk(source.schema())}
    return {}


def list_confidences(source: Source, field_map: Mapping[str, str]) -> list[str]:
    """Return the names under which the source's records state several confidences, sorted."""
    prefix = f"{field_map.get(PROB_CORRECT, PROB_CORRECT)}."
    fields = sorted(name for name in list_kinds(source) if name.startswith(prefix))
    return [name.removeprefix(prefix) for name in fields]


def _classify_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, set[Holds]]:
    # Rows have few types, and to classify a value takes longer than to look at its type.
    examples: dict[str, dict[type, Any]] = {}
    for row in rows:
        for name, value in _walk(row):
            if not is_null(value):
                examples.setdefault(name, {})[type(value)] = value
            elif name not in examples:
                examples[name] = {}
    return {
        name: {_HOLDS[kind] for each in values.values() if (kind := classify_scalar(each))}
        for name, values in examples.items()
    }


def _walk(within: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a row, or the types of a schema, by their paths."""
    for name, value in within.items():
        inside = dict(value) if isinstance(value, pl.Struct) else value
        if isinstance(inside, Mapping):
            yield from _walk(inside, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _classify(dtype: pl.DataType) -> Holds:
    if dtype.is_numeric():
        return "numbers"
    return "booleans" if dtype == pl.Boolean else "text"
