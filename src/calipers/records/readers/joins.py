"""Sources made from the rows of other sources: records joined with their tasks, and wide tables.

`--join` adds the fields of the task to each record; `--answers` turns a column of answers per
system into a record per task and system. Both read rows as Python objects, whatever the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.records.batch import Source, find_column
from calipers.records.fields import (
    FIELDS,
    Author,
    BadValue,
    Kind,
    Number,
    dump_json,
    find_field,
    is_text,
    load_json,
)
from calipers.records.limits import BLOCK_BYTES
from calipers.records.readers.bytestream import Block
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.lines import ConvertedLines, JsonLines
from calipers.records.readers.tables import RowList, SourceTable
from calipers.records.rows import list_names, read_numbered_lines
from calipers.support.config import shown
from calipers.support.errors import DataError, UsageError, nearest
from calipers.support.field_paths import look_up

_SLICE = 2_000


def iterate_rows(source: Source) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield each row and the share of the source behind it; numbers of JSON as they are written.

    Raises:
        DataError: A line is no JSON object.
    """
    if isinstance(source, JsonLines):
        yield from _walk_lines(source)
    elif isinstance(source, Csv | SourceTable):
        for frame, done in source.frames() if isinstance(source, Csv) else source.frames(_SLICE):
            yield from ((row, done) for row in frame.iter_rows(named=True))
    elif isinstance(source, RowList):
        yield from ((row, 1.0) for row in source.list_rows())
    else:
        raise DataError(
            f"{source.name}: cannot be read row by row",
            fix="convert it first: calipers convert FILES -o records.parquet",
        )


def _walk_lines(source: JsonLines) -> Iterator[tuple[Mapping[str, Any], float]]:
    for block, done in source.blocks():
        for number, _, row in read_numbered_lines(block.data, block.first + 1):
            if isinstance(row, BadValue):
                raise DataError(
                    f"{source.name}:{number}: {row}",
                    fix="check that the file is whole, or leave the line out",
                )
            yield row, done


def parse_cell(value: Any) -> Any:
    """Return what a table's cell holds: a list or an object may be in it as JSON text.

    >>> parse_cell('{"a": [1]}'), parse_cell("[not JSON]"), parse_cell("4")
    ({'a': [1]}, '[not JSON]', '4')
    """
    return load_json(value, value) if is_text(value) and value[:1] in ("{", "[") else value


_ID = "id"
_BATCH = 1_000
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TRUTH = {"true": True, "false": False}

Row = Mapping[str, Any]


def join_tasks(
    sources: Sequence[Source], tasks: Sequence[Source], name: str, on: str | None
) -> list[Source]:
    """Return the sources, whose records have the fields of their tasks too.

    Args:
        sources: The records.
        tasks: The tasks, which are held in memory.
        name: What the tasks are called in messages.
        on: The field that is the same in both, `id` by default; `RECORD=TASK` where the records
            and the tasks call it differently.

    Raises:
        DataError: The tasks have no such field, or two of them the same value in it.
    """
    ours, _, theirs = (on or _ID).partition("=")
    known = _index_tasks(tasks, name, theirs or ours)
    return [JoinedRows(source, known, ours, name) for source in sources]


def _index_tasks(tasks: Sequence[Source], name: str, field: str) -> dict[str, Row]:
    by_key: dict[str, Row] = {}
    seen: set[str] = set()
    for source in tasks:
        for row, _ in walk_rows(source):
            seen |= row.keys()
            key = _read_key(row.get(field))
            if key is None:
                continue
            if key in by_key:
                raise DataError(
                    f"{name}: two tasks have the {field} {shown(key)}",
                    fix="join on a field that tells tasks apart: --on FIELD",
                )
            by_key[key] = {
                field_name: value for field_name, value in row.items() if field_name != field
            }
    if not by_key:
        raise DataError(
            f"{name}: no task has a {field} to join on",
            fix=f"name the field with --on FIELD, or --on RECORD=TASK; {nearest(field, seen)}",
        )
    return by_key


def walk_rows(source: Source) -> Iterator[tuple[Row, float]]:
    """Yield the rows of a source; the cells of CSV in the types that their fields have."""
    if not isinstance(source, Csv):
        yield from iterate_rows(source)
        return
    for row, done in iterate_rows(source):
        yield {name: _parse_csv_cell(name, cell) for name, cell in row.items()}, done


def _parse_csv_cell(name: str, cell: Any) -> Any:
    kind = find_field(name).kind
    if not isinstance(cell, str) or kind in (Kind.TEXT, Kind.TEXTS, Kind.ANY, Kind.ITEMS):
        return cell
    if kind is not Kind.NUMBER and cell.strip().lower() in _TRUTH:
        return _TRUTH[cell.strip().lower()]
    return Number(cell.strip()) if _NUMBER.fullmatch(cell.strip()) else cell


def _read_key(value: Any) -> str | None:
    """Return a value as what it is compared by: 7, 7.0 and "7" are the same."""
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, str | int | float) else dump_json(value)


class JoinedRows(ConvertedLines):
    """A source whose records have the fields of their tasks, where they lack these themselves."""

    def __init__(self, source: Source, tasks: Mapping[str, Row], on: str, name: str) -> None:
        super().__init__(Path(source.name), source.name)
        self.path = source.path
        self.inner = source
        self._tasks, self._on, self._from = tasks, on, name
        self._records = self._found = 0

    @property
    def notice(self) -> str | None:
        """The number of records without a task, once they have been read."""
        if self._records == self._found:
            return None
        lost = self._records - self._found
        who = "none" if lost == self._records else f"{self._found:,}"
        return (
            f"{self.name}: {who} of {self._records:,} records found a task with the same "
            f"{self._on} in {self._from}"
        )

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        lines: list[bytes] = []
        first = size = 0
        done = 0.0
        self._records = self._found = 0
        for row, done in walk_rows(self.inner):
            lines.append(f"{dump_json(self._complete(row))}\n".encode("utf-8", "replace"))
            size += len(lines[-1])
            if len(lines) == _BATCH or size > BLOCK_BYTES:
                yield Block(b"".join(lines), first), done
                first, size, lines = first + len(lines), 0, []
        if lines:
            yield Block(b"".join(lines), first), done

    def _complete(self, row: Row) -> Row:
        key = _read_key(row.get(self._on))
        task = None if key is None else self._tasks.get(key)
        self._records += 1
        self._found += task is not None
        own = {name: value for name, value in row.items() if value is not None}
        return own if task is None else {**task, **own}


_OF_ONE_SYSTEM = frozenset(
    name
    for name, field in FIELDS.items()
    if field.author is not Author.TASK and name not in ("tier", "variant", "run")
)


def spread_answers(sources: Sequence[Source], columns: Sequence[str]) -> list[Source]:
    """Return sources with a record per row and column of answers; `model` is the column's name.

    Raises:
        UsageError: A source lacks one of the columns, or already says whose its answers are.
    """
    spread: list[Source] = []
    for source in sources:
        names = source.columns()
        answers = [c if find_column(c, names) is not None else c.strip() for c in columns]
        for column in answers:
            if find_column(column, names) is None:
                raise UsageError(
                    f"--answers {column}: {source.name} has no such column",
                    fix=nearest(column, list_names(source)),
                )
        for name in ("model", "answer"):
            if name in names and name not in answers:
                raise UsageError(
                    f"--answers: {source.name} has a column {name} already",
                    fix=f"rename it, or leave --answers out: {name} is read as it is",
                )
        spread.append(WideTable(source, answers, numbered_by=len(sources) > 1))
    return spread


class WideTable(ConvertedLines):
    """The rows of a table once for each of its columns of answers."""

    def __init__(self, source: Source, columns: Sequence[str], *, numbered_by: bool) -> None:
        super().__init__(Path(source.name), source.name)
        self.path = source.path
        self.inner = source
        self._answers = tuple(columns)
        self._prefix = f"{source.name}:" if numbered_by else ""
        self._left_out = sorted(_OF_ONE_SYSTEM.intersection(source.columns()) - {*columns})

    @property
    def notice(self) -> str | None:
        """The columns that are in no record, since their system is not known."""
        if not self._left_out:
            return None
        names = ", ".join(self._left_out)
        return f"{self.name}: {names}: left out, since --answers has several systems to a row"

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        lines: list[bytes] = []
        first = size = 0
        done = 0.0
        for number, (row, done) in enumerate(walk_rows(self.inner), 1):
            for record in self._spread(row, number):
                lines.append(f"{dump_json(record)}\n".encode("utf-8", "replace"))
                size += len(lines[-1])
            if len(lines) >= _BATCH or size > BLOCK_BYTES:
                yield Block(b"".join(lines), first), done
                first, size, lines = first + len(lines), 0, []
        if lines:
            yield Block(b"".join(lines), first), done

    def _spread(self, row: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
        """Yield the records of a row; without an id, its number is the id of all of them."""
        dropped = {*self._answers, *self._left_out}
        task = {name: value for name, value in row.items() if name not in dropped}
        task = task if "id" in task else {"id": f"{self._prefix}{number}", **task}
        for column in self._answers:
            yield {**task, "model": column, "answer": look_up(row, column)}
