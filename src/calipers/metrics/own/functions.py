"""A Python function of the whole record, `def polite(record: dict) -> float | bool | None`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.records.fields import FIELDS, Kind
from calipers.support.errors import DataError
from calipers.support.late import is_numpy_scalar

MetricFunction = Callable[[Mapping[str, Any]], Any]

_AS_JSON = (Kind.NESTED, Kind.NAMES, Kind.TEXTS)
_STARTS = ("{", "[")


def apply_function(feature: Feature, records: pl.DataFrame, failed: pl.Series) -> pl.Series:
    """Return what a feature's function makes of each record; null for calls that failed.

    Raises DataError that names the record for which the function fails.
    """
    assert feature.of_record is not None
    values = [
        None if skip else _compute(feature.of_record, row, feature.label)
        for row, skip in zip(records.iter_rows(named=True), failed, strict=True)
    ]
    return pl.Series(feature.name, values, dtype=pl.Float64)


def _decode(name: str, value: Any) -> Any:
    """Return a field as a Python value: lists and objects are held as JSON text."""
    if not isinstance(value, str) or not value.startswith(_STARTS):
        return value
    if name not in FIELDS or FIELDS[name].kind in _AS_JSON:
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _compute(function: MetricFunction, row: Mapping[str, Any], name: str) -> float | None:
    record = {key: _decode(key, value) for key, value in row.items() if not key.startswith("_")}
    try:
        value = function(record)
    except Exception as error:
        raise DataError(
            f"{name}: the function fails for {_describe(record)}: {type(error).__name__}: {error}",
            fix="return None for a record that it does not apply to, or fix the function",
        ) from error
    if is_numpy_scalar(value):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(
            f"{name}: the function returns {str(value)[:60]!r} for {_describe(record)}",
            fix="return a finite number, True, False, or None where it does not apply",
        )
    return float(value)


def _describe(record: Mapping[str, Any]) -> str:
    """Return a record's name for a message: its id, or else how it begins."""
    if record.get("id") is not None:
        return f"the record with id {record['id']}"
    known = {name: value for name, value in record.items() if value is not None}
    return f"the record {json.dumps(known, default=str, ensure_ascii=False)[:80]}"
