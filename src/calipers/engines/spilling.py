"""Rows in temporary files, each a part of a table: all rows of a task are in the same part.

Most files of records have the runs of a task near each other, if there are several at all. So rows
are written as they come, and spread over other files by task only where a task is in two of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from math import ceil
from pathlib import Path

import polars as pl

from calipers.metrics.declare.declaration import TASK

SPILL_BYTES = 64 << 20  # of a part
_LOOKED_AT = 8_000_000  # tasks at a time
_LOOKED_AT_FIRST = 100  # values, before all are


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
    tasks = last[task].drop_nulls().unique()
    going_on = [table[task].is_in(tasks.implode()).fill_null(value=False) for table in before]
    waiting = sum(int(each.sum()) for each in going_on)
    if not before or waiting > sum(table.height for table in before) // 2:
        return list(tables), []
    if not waiting:
        return before, [last]
    pairs = list(zip(before, going_on, strict=True))
    finished = [table.filter(~each) for table, each in pairs]
    return finished, [*(table.filter(each) for table, each in pairs if each.any()), last]


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
    """Rows that are written part by part, then read as often as is needed.

    `task` is the column whose equal values stay together.
    """

    def __init__(self, task: str = TASK) -> None:
        self._task = task
        self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        self._parts: list[list[Path]] = []  # the files of each part
        self._schemas: dict[Path, pl.Schema] = {}
        self._rows = 0
        self._bytes = 0.0
        self._are_tasks_whole = False  # once that has been seen to

    def add(self, rows: pl.DataFrame) -> None:
        """Write rows as a part of their own."""
        self._parts.append([self._write(rows, f"{len(self._parts):06}")])
        self._rows += rows.height
        self._bytes += rows.estimated_size()
        self._are_tasks_whole = False

    def remove(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def parts(self, names: Sequence[str]) -> Iterator[list[pl.DataFrame]]:
        """Yield the tables of each part with those of these columns that they have."""
        if not self._are_tasks_whole:
            if self._has_split_tasks():
                self._spread()
            self._are_tasks_whole = True
        for files in self._parts:
            yield [self._read(file, names) for file in files]

    def _write(self, rows: pl.DataFrame, name: str) -> Path:
        file = Path(self._folder.name, f"{name}.arrow")
        shrunk = rows.select(map(_shrink, rows))
        shrunk.write_ipc(file, record_batch_size=max(1, rows.height))
        self._schemas[file] = rows.schema
        return file

    def _read(self, file: Path, names: Collection[str] | None = None) -> pl.DataFrame:
        schema = self._schemas[file]
        found = [name for name in schema if names is None or name in names]
        return pl.read_ipc(file, columns=found).cast({name: schema[name] for name in found})

    def _has_split_tasks(self) -> bool:
        """Say whether a task is in two parts; some of the tasks at a time."""
        shares = self._rows // _LOOKED_AT + 1
        for share in range(shares):
            tasks = [
                self._read(file, [self._task])[self._task].drop_nulls()
                for files in self._parts
                for file in files
            ]
            if shares > 1:
                tasks = [each.filter(each % shares == share) for each in tasks]
            different = pl.concat(tasks).n_unique()
            if different < sum(map(len, tasks)) and different < sum(
                each.n_unique() for each in tasks
            ):
                return True
        return False

    def _spread(self) -> None:
        """Spread all rows over new parts, by task."""
        count = max(2, ceil(self._bytes / SPILL_BYTES))
        spread: list[list[Path]] = [[] for _ in range(count)]
        for [file] in self._parts:
            for number, share in split_by_task(self._read(file), count, self._task).items():
                spread[number].append(self._write(share, f"{file.stem}-{number:04}"))
            file.unlink()
        self._parts = [files for files in spread if files]
