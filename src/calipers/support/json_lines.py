"""A table as strict JSON lines: what is infinite is a text there; Polars would write a null."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from calipers.support.strict_json import to_finite

_LINES = 50_000  # so many at a time


def write_lines(table: pl.LazyFrame, path: Path) -> None:
    """Write the table, which lies in Parquet files; the fast way where all numbers are finite."""
    infinite = table.select(cs.float().is_infinite().any()).collect()
    if not any(column.any() for column in infinite):
        table.sink_ndjson(path)
        return
    with path.open("w", encoding="utf-8") as file:
        start = 0
        while (some := table.slice(start, _LINES).collect()).height:
            file.writelines(_format_line(row) for row in some.iter_rows(named=True))
            start += _LINES


def _format_line(row: Mapping[str, Any]) -> str:
    shown = {
        name: to_finite(value) if isinstance(value, float) else value for name, value in row.items()
    }
    return json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
