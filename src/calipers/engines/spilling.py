"""Rows in the parts of a table, all rows of a task in the same part, in memory or in files.

Most files of records have the runs of a task near each other, if there are several at all. So rows
are kept as they come, and spread over other parts by task only where a task is in two of them.

Rows of many groups are written by group: each share of the groups is read at once, so that all that
is to be known of a group is known from one visit; while more rows are read, the last ones are
written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import polars as pl

from calipers.engines.group_codes import combine_rows, merge_groups
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.support.lazy_numpy import np

SPILL_BYTES = 64 << 20  # of a part, before it is shrunk
KEPT_BYTES = 160 << 20  # of parts in memory, shrunk; the others are in files
_LOOKED_AT = 8_000_000  # tasks at a time
_LOOKED_AT_FIRST = 100  # values, before all are
_SHARES = 32  # of the groups, a file of each
_LARGEST = 4  # times the size of a part: rows of a larger share are not read at once


def split_by_task(rows: pl.DataFrame, parts: int, task: str = TASK) -> dict[int, pl.DataFrame]:
    """Return the rows spread over parts, by number: all rows of a task in the same one.

    Rows without an id are tasks of their own: any part will do.
    """
    part = pl.coalesce(pl.col(task), pl.int_range(pl.len())) % parts
    shares = rows.with_columns(part.alias("_part")).partition_by(
        "_part", as_dict=True, include_key=False
    )
    return {int(number): share for (number,), share in shares.items()}


def split_finished(
    tables: Sequence[pl.DataFrame], task: str = TASK
) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """Return the rows of tasks that seem to be finished, and those of tasks that may go on.

    These are the tasks of the last table; where too many rows had to wait for them, none does.
    """
    *before, last = tables
    tasks = last[task].drop_nulls()
    going_on = [table[task].is_in(tasks.implode()).fill_null(value=False) for table in before]
    waiting = sum(int(is_open.sum()) for is_open in going_on)
    if not before or waiting > sum(table.height for table in before) // 2:
        return list(tables), []
    if not waiting:
        return before, [last]
    pairs = list(zip(before, going_on, strict=True))
    finished = [table.filter(~pair) for table, pair in pairs]
    return finished, [*(table.filter(pair) for table, pair in pairs if pair.any()), last]


def _shrink_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in fewer bytes; the types of columns may be others in other rows."""
    return rows.select(map(_shrink, rows))


def _shrink(column: pl.Series) -> pl.Series:
    """Return the column in fewer bytes, where it holds small whole numbers."""
    if column.dtype == pl.Float64:
        few = column.head(_LOOKED_AT_FIRST)
        whole = column.cast(pl.Int32, strict=False) if (few == few.floor()).all() else None
        if whole is None or not whole.cast(pl.Float64).eq_missing(column).all():
            return column
        column = whole
    return column.shrink_dtype() if column.dtype.is_integer() else column


class SpilledRows:
    """Rows that are taken part by part, then read as often as is needed.

    The first parts stay in memory, in as few bytes as hold them; the others are in files. `schema`
    has the types that they are read as; `task` is the column whose equal values stay together.
    """

    def __init__(self, schema: Mapping[str, pl.DataType], task: str = TASK) -> None:
        self._schema = schema
        self._task = task
        self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        self._parts: list[list[_Piece]] = []
        self._rows = 0
        self._bytes = 0.0
        self._kept_bytes = 0.0
        self._are_tasks_whole = False  # once that has been seen to
        self._are_tasks_single = False

    def add(self, tables: Sequence[pl.DataFrame]) -> None:
        """Take the rows of some tables as a part of their own, in the order of groups."""
        rows = merge_groups([_shrink_columns(table) for table in tables])
        self._parts.append([self._put(rows, f"{len(self._parts):06}")])
        self._rows += rows.height
        self._bytes += sum(table.estimated_size() for table in tables)
        self._are_tasks_whole = False

    def remove(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def parts(self, names: Sequence[str]) -> Iterator[list[pl.DataFrame]]:
        """Yield the tables of each part with those of these columns that they have."""
        self._make_tasks_whole()
        for pieces in self._parts:
            yield [piece.read(names) for piece in pieces]

    @property
    def are_tasks_single(self) -> bool:
        """Return True if no task has two rows."""
        self._make_tasks_whole()
        return self._are_tasks_single

    def _make_tasks_whole(self) -> None:
        """Spread the rows by task if a task is in two parts; note whether any has two rows."""
        if not self._are_tasks_whole:
            if self._has_split_tasks():
                self._spread()
            self._are_tasks_whole = True

    def _put(self, rows: pl.DataFrame, name: str) -> _Piece:
        """Return rows as they are kept: in memory, or in a file of this name."""
        schema = {column: self._schema[column] for column in rows.columns}
        size = rows.estimated_size()
        if self._kept_bytes + size <= KEPT_BYTES:
            self._kept_bytes += size
            return _Piece(schema, rows)
        file = Path(self._folder.name, f"{name}.arrow")
        rows.write_ipc(file, record_batch_size=max(1, rows.height))
        return _Piece(schema, file)

    def _remove(self, piece: _Piece) -> None:
        if isinstance(piece.rows, Path):
            piece.rows.unlink()
        else:
            self._kept_bytes -= piece.rows.estimated_size()

    def _has_split_tasks(self) -> bool:
        """Return True if a task is in two parts; some of the tasks at a time."""
        self._are_tasks_single = True
        shares = self._rows // _LOOKED_AT + 1
        for share in range(shares):
            tasks = [
                piece.read([self._task])[self._task].drop_nulls()
                for pieces in self._parts
                for piece in pieces
            ]
            if shares > 1:
                tasks = [task.filter(task % shares == share) for task in tasks]
            different = pl.concat(tasks).n_unique()
            if different < sum(map(len, tasks)):
                self._are_tasks_single = False
                if different < sum(task.n_unique() for task in tasks):
                    return True
        return False

    def _spread(self) -> None:
        """Spread all rows over new parts, by task."""
        count = max(2, ceil(self._bytes / SPILL_BYTES))
        spread: list[list[_Piece]] = [[] for _ in range(count)]
        for part, [piece] in enumerate(self._parts):
            shares = split_by_task(piece.read(), count, self._task)
            self._remove(piece)
            for number, share in shares.items():
                shrunk = _shrink_columns(share)
                spread[number].append(self._put(shrunk, f"{part:06}-{number:04}"))
            self._parts[part] = []
        self._parts = [pieces for pieces in spread if pieces]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows in few bytes, and the types that they are read as."""

    schema: Mapping[str, pl.DataType]
    rows: pl.DataFrame | Path

    def read(self, names: Collection[str] | None = None) -> pl.DataFrame:
        """Return those of these columns that the rows have, or all."""
        columns = [name for name in self.schema if names is None or name in names]
        if isinstance(self.rows, Path):
            rows = pl.read_ipc(self.rows, columns=columns)
        else:
            rows = self.rows.select(columns)
        return rows.cast({name: self.schema[name] for name in columns})


class GroupFiles:
    """Rows of many groups, written as they come, a file per share of the groups, and read once."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        self._files: list[list[Path]] = [[] for _ in range(_SHARES)]
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def add(self, tables: Sequence[pl.DataFrame]) -> None:
        """Write rows in the background, once those before are written."""
        self._wait()
        self._writing = self._writer.submit(self._write, list(tables))

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write(self, tables: list[pl.DataFrame]) -> None:
        rows = combine_rows(tables)
        tables.clear()
        shares = (rows[GROUP].to_numpy() % _SHARES).astype(np.uint8)
        rows = rows[pl.Series(np.argsort(shares, kind="stable"), dtype=pl.UInt32)]
        counts = np.bincount(shares, minlength=_SHARES)
        start = 0
        for share, count in enumerate(counts.tolist()):
            if count:
                file = Path(self._folder.name, f"{share:02}-{len(self._files[share]):06}.arrow")
                rows[start : start + count].write_ipc(file, record_batch_size=count)
                self._files[share].append(file)
            start += count

    @property
    def are_groups_small(self) -> bool:
        """Return True if the rows of each share fit in memory."""
        self._wait()
        return max(map(_sum_bytes, self._files)) <= _LARGEST * SPILL_BYTES

    def parts(self) -> Iterator[pl.DataFrame]:
        """Yield rows in one piece and in no order, all of a group together."""
        self._wait()
        return _read_files(self._files)

    def cut_parts(self) -> Iterator[pl.DataFrame]:
        """Yield rows in one piece and in no order, wherever those of a group are."""
        self._wait()
        return _read_files([file] for files in self._files for file in files)

    def remove(self) -> None:
        """Remove the files."""
        self._writer.shutdown()
        self._folder.cleanup()


def _read_files(together: Iterable[list[Path]]) -> Iterator[pl.DataFrame]:
    """Yield the rows of as many files as make a part; some belong together."""
    files: list[Path] = []
    for more in together:
        if files and _sum_bytes([*files, *more]) > SPILL_BYTES:
            yield combine_rows(map(pl.read_ipc, files))
            files = []
        files += more
    if files:
        yield combine_rows(map(pl.read_ipc, files))


def _sum_bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)
