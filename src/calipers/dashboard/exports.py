"""The rows of a view as CSV or JSON, some at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from calipers.dashboard.index import Index
from calipers.reports.spreadsheets import write_csv

AT_ONCE = 5_000


def as_csv(index: Index, rows: pl.Series) -> Iterator[str]:
    """A header, then a line per record: its number, its fields, what was measured."""
    names = _names(index)
    yield write_csv([["row", *names]])
    for numbers, part in _parts(index, rows):
        records = part.select(names).iter_rows()
        yield write_csv(
            [number, *map(_cell, record)] for number, record in zip(numbers, records, strict=True)
        )


def as_json(index: Index, rows: pl.Series) -> Iterator[str]:
    """A list of objects, a line each."""
    names = _names(index)
    yield "["
    first = True
    for numbers, part in _parts(index, rows):
        for number, record in zip(numbers, part.select(names).iter_rows(named=True), strict=True):
            found = {"row": number, **{n: v for n, v in record.items() if v is not None}}
            yield ("\n" if first else ",\n") + json.dumps(found, ensure_ascii=False, default=str)
            first = False
    yield "\n]\n"


def _names(index: Index) -> list[str]:
    return list(dict.fromkeys((*index.summary.fields, *index.summary.values)))


def _parts(index: Index, rows: pl.Series) -> Iterator[tuple[list[int], pl.DataFrame]]:
    for start in range(0, len(rows), AT_ONCE):
        numbers = rows.slice(start, AT_ONCE).to_list()
        values = index.values(numbers)
        records = index.records(numbers)
        own = [name for name in records.columns if name not in values.columns]
        yield numbers, pl.concat([records.select(own), values], how="horizontal")


def _cell(value: Any) -> Any:
    """As JSON has it."""
    return str(value).lower() if isinstance(value, bool) else value
