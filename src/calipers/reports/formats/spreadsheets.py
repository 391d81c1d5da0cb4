"""CSV that is safe in spreadsheets: a text that would run as a formula gets an apostrophe.

>>> [escape_cell(each) for each in ("=1+1", "- no", "-0.5", -0.5, None)]
["'=1+1", "'- no", '-0.5', -0.5, None]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from calipers.reports.table import (
    Column,
    Document,
    Table,
    hide_data,
    list_data_columns,
    list_data_rows,
)
from calipers.scores.result import list_metric_names

if TYPE_CHECKING:
    import polars as pl

    from calipers.scores.result import Score

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_QUOTE = '"'
_QUOTED = re.compile(r'[",\r\n]')
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def escape_cell(value: Any) -> Any:
    """Return the value; a text that would be a formula gets an apostrophe."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value


def write_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Return lines of CSV; an empty cell is a null, one in quotes an empty text."""
    return "".join(f"{','.join(map(write_cell, cells))}\n" for cells in rows)


def write_cell(value: Any) -> str:
    """Return a value as a cell of CSV: empty for null, in quotes where it needs them."""
    if value is None:
        return ""
    text = str(escape_cell(value))
    return text if text and not _QUOTED.search(text) else f'"{text.replace(_QUOTE, _QUOTE * 2)}"'


def render_csv(document: Document) -> str:
    """Return the data of a document as CSV with a header; an empty cell is a null."""
    columns, rows = _list_data(document)
    shown = ([str(each).lower() if isinstance(each, bool) else each for each in r] for r in rows)
    return write_csv([[column.name for column in columns], *shown])


def render_wide_csv(score: Score) -> str:
    """Return a row per group: its fields, counts, and `NAME`, `NAME_low`, `NAME_high`."""
    fields = list(dict.fromkeys(name for group in score.groups for name in group.by))
    metrics = list_metric_names(score.groups)
    parts = [f"{name}{part}" for name in metrics for part in ("", "_low", "_high")]
    rows: list[list[Any]] = [[*fields, "records", "errors", *parts]]
    for group in score.groups:
        row = [*(group.by.get(name) for name in fields), group.records, group.errors]
        for name in metrics:
            found = group.metrics.get(name)
            row += [None] * 3 if found is None else [found.value, found.low, found.high]
        rows.append(row)
    return write_csv(rows)


def make_frame(document: Document) -> pl.DataFrame:
    """Return the data of a document as a data frame."""
    import polars as pl  # noqa: PLC0415 (heavy)

    columns, rows = _list_data(document)
    kinds = {str: pl.String(), float: pl.Float64(), int: pl.Int64()}
    types = {column.name: kinds[column.type] for column in columns if column.type is not None}
    names = [column.name for column in columns]
    if not rows:
        return pl.DataFrame(schema={name: types.get(name, pl.String()) for name in names})
    return pl.DataFrame(
        [dict(zip(names, row, strict=True)) for row in rows],
        schema_overrides=types,
        infer_schema_length=None,
    )


def _list_data(document: Document) -> tuple[list[Column], list[list[Any]]]:
    """Return the columns and rows of the tables that are data; null if a table lacks one."""
    tables = [block for block in document if isinstance(block, Table)]
    columns = {column.name: column for table in tables for column in list_data_columns(table)}
    rows: list[list[Any]] = []
    for table in tables:
        names = [column.name for column in list_data_columns(table)]
        found = (dict(zip(names, row, strict=True)) for row in list_data_rows(table) if names)
        rows += ([row.get(name) for name in columns] for row in found)
    return list(columns.values()), rows


def render_shown_csv(table: Table) -> str:
    """Return what people see of a table as CSV, in full precision, intervals with their bounds."""
    seen = hide_data(table)
    head: list[str] = []
    values: list[list[Any]] = []  # a list per column
    for at, column in enumerate(seen.columns):
        cells = [row.get_cell(at) for row in seen.rows]
        head.append(column.head)
        values.append([cell.text if cell.value is None else cell.value for cell in cells])
        if any(cell.low is not None or cell.high is not None for cell in cells):
            head += (f"{column.head} low", f"{column.head} high")
            values += ([cell.low for cell in cells], [cell.high for cell in cells])
    return write_csv([head, *zip(*values, strict=True)])
