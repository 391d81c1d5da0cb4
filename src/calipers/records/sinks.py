"""Files that are written while an engine runs: per-sample values, tables of tasks, and bad rows.

Each is written beside its destination and moved there when complete, so that a failed run leaves no
partial file behind. Polars would write what is infinite as null; here it is a text.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl
import polars.selectors as cs

from calipers.records.batch import BadRow, refuse_bad
from calipers.records.lakehouse import is_lakehouse, refuse_place, write_table
from calipers.support.errors import UsageError
from calipers.support.files import stage_file
from calipers.support.strict_json import to_finite

_LINES = 50_000  # so many at a time
_HELD_BYTES = 64 << 20  # of rows in memory, before they are written to files on their way


def write_lines(table: pl.LazyFrame, path: Path) -> None:
    """Write the table, which is read twice; the fast way where all numbers are finite."""
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


TABLE_SUFFIXES = (".parquet", ".jsonl")
_TABLE = "table:"

TakeTasks = Callable[[pl.DataFrame], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An observer of every row: fields to keep, columns to see, and a function to call."""

    kept: tuple[str, ...]
    columns: Mapping[str, str]
    take: Callable[[pl.DataFrame], None]


class FileSinks:
    """Per-sample values and bad rows, each to its file if one is named."""

    def __init__(
        self,
        folder: Path,
        *,
        samples: Path | None,
        tasks: TakeTasks | None,
        bad_rows: IO[str] | None,
        skip_bad: bool,
        progress: Callable[[float], None],
        watch: Watch | None = None,
    ) -> None:
        self.wants_samples = samples is not None or watch is not None
        self.samples_table = find_table(samples)
        self._watch = watch
        self.wants_tasks = tasks is not None
        self._tasks = tasks
        self._folder = folder
        self._parts = 0
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0.0
        self._schemas: list[pl.Schema] = []
        self._bad_rows = bad_rows
        self._skip_bad = skip_bad
        self._progress = progress

    def take_samples(self, rows: pl.DataFrame) -> None:
        """Keep a part; the parts become one file at the end. A watcher may take them instead."""
        if self._watch is not None:
            self._watch.take(rows)
            return
        if rows.schema not in self._schemas:
            self._schemas.append(rows.schema)
        self._held.append(rows)
        self._held_bytes += rows.estimated_size()
        if self._held_bytes > _HELD_BYTES:
            for part in self._held:
                part.write_parquet(self._folder / f"{self._parts:08}.parquet", compression="lz4")
                self._parts += 1
            self._held, self._held_bytes = [], 0.0

    def take_tasks(self, totals: pl.DataFrame) -> None:
        """Pass them on to the file of tasks."""
        if self._tasks is not None:
            self._tasks(totals)

    def take_bad_rows(self, rows: Sequence[BadRow]) -> None:
        """Stop at the first bad row, or write them down and continue."""
        if not self._skip_bad:
            refuse_bad(rows)
        if self._bad_rows is not None:
            self._bad_rows.writelines(
                json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows
            )

    def report_progress(self, share: float) -> None:
        """Pass the share of the work done on to the caller."""
        self._progress(share)

    def join_samples(self, path: Path) -> None:
        """Join all parts into one file."""
        if not self._schemas:
            pl.DataFrame().write_ndjson(path) if path.suffix == ".jsonl" else (
                pl.DataFrame().write_parquet(path)
            )
            return
        self._unify()
        written = [pl.scan_parquet(self._folder / "*.parquet")] if self._parts else []
        rows = pl.concat([*written, *(part.lazy() for part in self._held)])
        if path.suffix == ".jsonl":
            write_lines(rows, path)
        else:
            rows.sink_parquet(path)

    def list_parts(self) -> Iterator[pl.DataFrame]:
        """Yield all parts, of the same types; one without rows or columns if there is none."""
        self._unify()
        for number in range(self._parts):
            yield pl.read_parquet(self._folder / f"{number:08}.parquet")
        yield from self._held or ([] if self._parts else [pl.DataFrame()])

    def _unify(self) -> None:
        """Give all parts the same types: a field may be text in one source only."""
        if len(self._schemas) < 2:  # noqa: PLR2004 (two to agree)
            return
        empty = (pl.DataFrame(schema=schema) for schema in self._schemas)
        common = pl.concat(empty, how="vertical_relaxed").schema
        for number in range(self._parts):
            path = self._folder / f"{number:08}.parquet"
            pl.read_parquet(path).cast(common).write_parquet(path, compression="lz4")
        self._held = [part.cast(common) for part in self._held]


@contextmanager
def open_sinks(
    *,
    samples: Path | None,
    tasks: TakeTasks | None = None,
    bad_rows: Path | None,
    skip_bad: bool,
    progress: Callable[[float], None],
    watch: Watch | None = None,
) -> Iterator[FileSinks]:
    """Open sinks whose files are complete when the block ends, and untouched if it fails."""
    is_file = samples is not None and find_table(samples) is None
    if samples is not None and is_file:
        check_table_place(samples, "--per-sample", lakehouse=True)
    if bad_rows is not None:
        _check_place(bad_rows)
    with tempfile.TemporaryDirectory(prefix="calipers-") as name:
        folder = Path(name)
        with _open_partial(bad_rows) as bad_file:
            sinks = FileSinks(
                folder,
                samples=samples,
                tasks=tasks,
                bad_rows=bad_file,
                skip_bad=skip_bad,
                progress=progress,
                watch=watch,
            )
            yield sinks
        if samples is not None and is_file:
            if is_lakehouse(samples):
                write_table(sinks.list_parts(), samples)
                return
            with stage_file(samples) as beside:
                sinks.join_samples(beside)


@contextmanager
def _open_partial(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with stage_file(path) as beside, beside.open("w", encoding="utf-8") as file:
        yield file


def find_table(place: Path | None) -> str | None:
    """Return the name of a table of Spark's, `table:NAME`; None for a file.

    >>> find_table(Path("table:main.evals.answers"))
    'main.evals.answers'
    """
    text = str(place)
    return text.removeprefix(_TABLE) if text.startswith(_TABLE) else None


def check_table_place(path: Path, option: str, *, lakehouse: bool = False) -> None:
    """Refuse a place where no table can be written before any work is done.

    Args:
        path: A file, or the address of a Delta or Iceberg table.
        option: What the user gave it to.
        lakehouse: Whether such an address may be written to.
    """
    if is_lakehouse(path) and lakehouse:
        refuse_place(path, option)
        return
    _check_place(path)
    if path.suffix not in TABLE_SUFFIXES:
        raise UsageError(
            f"{option} {path}: unknown format",
            fix=f"name a file that ends in {' or '.join(TABLE_SUFFIXES)}"
            + (", delta:FOLDER or iceberg:CATALOG.NAMESPACE.TABLE" if lakehouse else ""),
        )


def check_folder(path: Path, option: str) -> None:
    """Refuse a folder that cannot be written to, or made, before any work is done."""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "cannot be written to" if there.is_dir() else "is not a folder"
        raise UsageError(f"{option} {path}: {there} {why}", fix="name another folder")


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist", fix="create it first")
    if path.is_dir():
        raise UsageError(f"{path}: a folder, not a file", fix="name a file in it")
