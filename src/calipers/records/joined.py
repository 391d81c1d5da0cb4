"""Records with the fields of their tasks: targets, categories and the like, found by a field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.records.any_rows import iterate_rows
from calipers.records.batch import Source
from calipers.records.bytestream import Block
from calipers.records.csv_file import Csv
from calipers.records.fields import Kind, Number, dump_json, find_field
from calipers.records.jsonl import MadeLines
from calipers.records.limits import BLOCK_BYTES
from calipers.support.config.files import shown
from calipers.support.errors import DataError, nearest

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
    known = _index(tasks, name, theirs or ours)
    return [Joined(source, known, ours, name) for source in sources]


def _index(tasks: Sequence[Source], name: str, field: str) -> dict[str, Row]:
    found: dict[str, Row] = {}
    seen: set[str] = set()
    for source in tasks:
        for row, _ in _walk(source):
            seen |= row.keys()
            key = _read_key(row.get(field))
            if key is None:
                continue
            if key in found:
                raise DataError(
                    f"{name}: two tasks have the {field} {shown(key)}",
                    fix="join on a field that tells tasks apart: --on FIELD",
                )
            found[key] = {each: value for each, value in row.items() if each != field}
    if not found:
        raise DataError(
            f"{name}: no task has a {field} to join on",
            fix=f"name the field with --on FIELD, or --on RECORD=TASK; {nearest(field, seen)}",
        )
    return found


def _walk(source: Source) -> Iterator[tuple[Row, float]]:
    """Yield the rows of a source; the cells of CSV in the types that their fields have."""
    if not isinstance(source, Csv):
        yield from iterate_rows(source)
        return
    for row, done in iterate_rows(source):
        yield {name: _parse_cell(name, cell) for name, cell in row.items()}, done


def _parse_cell(name: str, cell: Any) -> Any:
    kind = find_field(name).kind
    if not isinstance(cell, str) or kind in (Kind.TEXT, Kind.TEXTS, Kind.ANY):
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


class Joined(MadeLines):
    """A source whose records have the fields of their tasks, where they lack these themselves."""

    def __init__(self, source: Source, tasks: Mapping[str, Row], on: str, name: str) -> None:
        super().__init__(Path(source.name), source.name)
        self.path = source.path
        self.inner = source
        self._tasks, self._on, self._from = tasks, on, name
        self._records = self._found = 0

    @property
    def notice(self) -> str | None:
        """How many records have no task, once they have been read."""
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
        for row, done in _walk(self.inner):
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
