"""Tables: Parquet files and folders of them, frames and lists in memory."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from calipers.records.batch import BadRow, Batch, Chunk, Decoded, Wanted
from calipers.records.bytestream import shorten_error
from calipers.records.columns import conform_columns
from calipers.records.completing import list_inputs
from calipers.records.fields import BadValue
from calipers.records.limits import FREE_EXPANSION, get_limits
from calipers.records.parquet_footer import read_unpacked_size
from calipers.records.rows import check_rows, find_scalar_types
from calipers.support.errors import DataError

CHUNK_ROWS = 50_000
_SHORT_BYTES = 200  # of a row: twice as many are read at once, as each chunk has its own costs
_SNIFF_ROWS = 200
_CELL_BYTES = 4  # at least, once it is read

T = TypeVar("T")


class SourceTable:
    """Columns with types of their own: a lazy Polars frame and a name to report rows by."""

    knows_columns = True  # no row has others than `columns` says
    _is_text = False  # all cells, as in CSV

    def __init__(self, frame: pl.LazyFrame, name: str, path: str | None = None) -> None:
        self.name = name
        self.path = path
        self._frame = frame
        self._limits = get_limits()

    def columns(self) -> list[str]:
        """Return the columns' names."""
        return self.schema().names()

    def schema(self) -> pl.Schema:
        """Return the columns and their types."""
        return self._guard(self._frame.collect_schema)

    def height(self) -> int:
        """Return the number of rows."""
        return int(self._guard(lambda: self._frame.select(pl.len()).collect().item()))

    def chunks(self, wanted: Wanted) -> Iterator[Decoded]:
        """Yield the table in slices of rows, only its wanted columns."""
        present = wanted.columns(set(self.columns()), list_inputs(wanted))
        total = self.height()
        row_bytes = self._check_size(total, len(present))
        if not present:
            yield Decoded(partial(self._decode, pl.DataFrame(height=total), 1, wanted), 1.0)
            return
        rows = self._frame.select(present)
        most = CHUNK_ROWS * (2 if total > CHUNK_ROWS and self._are_short(rows) else 1)
        some = max(1, min(most, FREE_EXPANSION // max(row_bytes, 1)))
        yield from self._slice_rows(rows, total, some, wanted)

    def _are_short(self, rows: pl.LazyFrame) -> bool:
        few = self._guard(rows.head(_SNIFF_ROWS).collect)
        return few.estimated_size() <= few.height * _SHORT_BYTES

    def frames(self, rows: int) -> Iterator[tuple[pl.DataFrame, float]]:
        """Yield the table, all its columns, some rows at a time, and the share behind each."""
        total = self.height()
        row_bytes = self._check_size(total, len(self.columns()))
        some = max(1, min(rows, FREE_EXPANSION // max(row_bytes, 1)))
        for start in range(0, total, some):
            part = self._guard(self._frame.slice(start, some).collect)
            yield part, min(1.0, (start + some) / total)

    def _list_files(self) -> list[Path]:
        """Return the Parquet files that the table is read from."""
        return [] if self.path is None else [Path(self.path)]

    def _check_size(self, rows: int, columns: int) -> int:
        """Return about how many bytes a row has, of all columns; 0 where no file tells.

        Raises:
            DataError: A small file claims to expand to very much.
        """
        packed = unpacked = 0
        for path in self._list_files():
            size, said = path.stat().st_size, self._guard(partial(read_unpacked_size, path)) or 0
            self._limits.check_expansion(size, said, str(path))
            packed, unpacked = packed + size, unpacked + said
        if packed:
            self._limits.check_expansion(packed, rows * columns * _CELL_BYTES, self.name)
        return unpacked // max(rows, 1)

    def _slice_rows(
        self, rows: pl.LazyFrame, total: int, some: int, wanted: Wanted
    ) -> Iterator[Decoded]:
        """Yield slices that are read when they are decoded, so that nothing is held ahead."""
        for start in range(0, total, some):
            decode = partial(self._decode_slice, rows.slice(start, some), start + 1, wanted)
            yield Decoded(decode, min(1.0, (start + some) / total))

    def _decode_slice(
        self, rows: pl.LazyFrame, first_row: int, wanted: Wanted, *, thorough: bool = False
    ) -> Batch:
        return self._decode(self._guard(rows.collect), first_row, wanted, thorough=thorough)

    def frame(self) -> pl.DataFrame:
        """Return the whole table."""
        return self._guard(self._frame.collect)

    def _decode(
        self, frame: pl.DataFrame, first_row: int, wanted: Wanted, *, thorough: bool = False
    ) -> Batch:
        return conform_columns(
            frame, wanted, self.name, first_row, parse=self._is_text, thorough=thorough
        )

    def _guard(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._make_error(error) from error

    def _make_error(self, error: Exception) -> DataError:
        return DataError(
            f"{self.name}: cannot be read: {shorten_error(error)}",
            fix="check that the file is whole and of the format that its name says",
        )


class Parquet(SourceTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(pl.scan_parquet(path, glob=False), str(path), str(path))


class Rows:
    """Records in memory, as a list of dicts."""

    path: str | None = None

    def __init__(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        self.name = name
        self._rows = rows
        self._looked_at = _SNIFF_ROWS

    def columns(self) -> list[str]:
        """Return the keys of the first rows."""
        return list(dict.fromkeys(key for row in self.read_first_rows() for key in row))

    def look_through(self) -> None:
        """Take all rows for the first ones."""
        self._looked_at = len(self._rows)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the list in slices."""
        scalars = find_scalar_types(self.read_first_rows(), wanted)
        for start in range(0, len(self._rows), CHUNK_ROWS):
            rows = self._rows[start : start + CHUNK_ROWS]
            done = (start + len(rows)) / len(self._rows)
            yield Decoded(partial(self._decode, rows, start, wanted, scalars), done)

    def read_first_rows(self) -> list[Mapping[str, Any]]:
        """Return the first rows."""
        rows = islice(self._rows, self._looked_at)
        return [row for row in rows if isinstance(row, Mapping)]

    def list_rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows themselves."""
        return self._rows

    def as_lines(self) -> Iterator[str]:
        """Yield the rows as JSON lines, for workers elsewhere."""
        return (json.dumps(row, default=str) for row in self._rows)

    def _decode(
        self,
        rows: Sequence[Mapping[str, Any]],
        start: int,
        wanted: Wanted,
        scalars: Mapping[str, pl.DataType],
        *,
        thorough: bool = True,
    ) -> Batch:
        del thorough  # always
        numbered = (
            (number, repr(row), row if isinstance(row, Mapping) else BadValue("not a dict"))
            for number, row in enumerate(rows, start=start + 1)
        )
        return check_rows(numbered, wanted, self.name, scalars)


def list_parts(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder, but not hidden ones: `_delta_log`, `.staging`."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file()
        and not any(
            name.startswith((".", "_")) and "=" not in name
            for name in path.relative_to(folder).parts
        )
    )


class ParquetFolder:
    """Parts of one schema are read as one table; `key=value` folders become columns."""

    path: str | None = None
    knows_columns = True  # no row has others than `columns` says

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        alike: dict[tuple[object, ...], list[Path]] = {}
        for part in list_parts(path):
            alike.setdefault(tuple(Parquet(part).schema().items()), []).append(part)
        self._tables = [_AlikeParts(parts, self.name) for parts in alike.values()]

    @property
    def is_uniform(self) -> bool:
        """Whether all parts have the same columns and types."""
        return len(self._tables) == 1

    def columns(self) -> list[str]:
        """Return the columns of all parts."""
        return list(dict.fromkeys(name for table in self._tables for name in table.columns()))

    def schema(self) -> pl.Schema:
        """Return the columns of all parts with their types, by the first part that has each."""
        types = (each for table in reversed(self._tables) for each in table.schema().items())
        return pl.Schema(dict(types))

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield all parts in slices of rows."""
        for number, table in enumerate(self._tables):
            for chunk in table.chunks(wanted):
                decode = partial(table.locate, chunk)
                yield Decoded(decode, (number + chunk.done) / len(self._tables))


class _AlikeParts(SourceTable):
    """Parts of the same columns and types, one behind the other."""

    def __init__(self, parts: list[Path], name: str) -> None:
        self._parts = parts
        super().__init__(pl.scan_parquet(parts, glob=False, hive_partitioning=True), name)

    def _list_files(self) -> list[Path]:
        return self._parts

    def locate(self, chunk: Decoded, *, thorough: bool = False) -> Batch:
        """Return the batch, its bad rows with the part they are in and their row there."""
        batch = chunk.decode(thorough=thorough)
        return replace(batch, bad=tuple(map(self._find_part, batch.bad)))

    def _find_part(self, bad: BadRow) -> BadRow:
        number = bisect_left(self._ends, bad.row)
        before = self._ends[number - 1] if number else 0
        return replace(bad, source=str(self._parts[number]), row=bad.row - before)

    @cached_property
    def _ends(self) -> list[int]:
        """The row with which each part ends."""
        return list(accumulate(Parquet(part).height() for part in self._parts))
