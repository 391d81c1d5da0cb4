"""The rows of a view as CSV or JSON, some at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl

from calipers.dashboard.index import Index
from calipers.reports.spreadsheets import write_csv

AT_ONCE = 5_000


def as_csv(index: Index, rows: pl.Series) -> Iterator[str]:
    """Yield a header, then a line per record: its number, its fields, its measured values."""
    names = _list_names(index)
    yield write_csv([["row", *names]])
    for numbers, part in _read_parts(index, rows):
        records = part.select(names).iter_rows()
        yield write_csv(
            [number, *(str(each).lower() if isinstance(each, bool) else each for each in record)]
            for number, record in zip(numbers, records, strict=True)
        )


def as_json(index: Index, rows: pl.Series) -> Iterator[str]:
    """Yield a list of objects, a line each."""
    names = _list_names(index)
    yield "["
    first = True
    for numbers, part in _read_parts(index, rows):
        for number, record in zip(numbers, part.select(names).iter_rows(named=True), strict=True):
            found = {"row": number, **{n: v for n, v in record.items() if v is not None}}
            yield ("\n" if first else ",\n") + json.dumps(found, ensure_ascii=False, default=str)
            first = False
    yield "\n]\n"


def _list_names(index: Index) -> list[str]:
    return list(dict.fromkeys((*index.summary.fields, *index.summary.values)))


def _read_parts(index: Index, rows: pl.Series) -> Iterator[tuple[list[int], pl.DataFrame]]:
    for start in range(0, len(rows), AT_ONCE):
        numbers = rows.slice(start, AT_ONCE).to_list()
        values = index.read_values(numbers)
        records = index.read_records(numbers)
        own = [name for name in records.columns if name not in values.columns]
        yield numbers, pl.concat([records.select(own), values], how="horizontal")
