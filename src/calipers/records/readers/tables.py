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

from calipers.records.batch import (
    BadRow,
    Batch,
    Chunk,
    DecodedChunk,
    Wanted,
    find_column,
    select_column,
)
from calipers.records.columns import classify_type, conform_columns, find_column_kinds
from calipers.records.derived_fields import list_source_names
from calipers.records.fields import BadValue
from calipers.records.limits import FREE_EXPANSION, get_limits
from calipers.records.readers.bytestream import shorten_error
from calipers.records.readers.parquet_check import CELL_BYTES, check_decoding, read_unpacked_size
from calipers.records.rows import Kinds, check_rows, choose_types, find_kinds, settle_types
from calipers.support.errors import DataError

CHUNK_ROWS = 50_000
_SHORT_BYTES = 200  # of a row: twice as many are read at once, as each chunk has its own costs
_SNIFF_ROWS = 200

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

    def chunks(self, wanted: Wanted, rows: range | None = None) -> Iterator[DecodedChunk]:
        """Yield the table, or a range of its rows, in slices, only its wanted columns."""
        if wanted.types is None:
            wanted = replace(wanted, types=choose_types(self.find_kinds(wanted), wanted))
        present = wanted.columns(set(self.columns()), list_source_names(wanted))
        asked, total = rows, self.height()
        row_bytes = self._check_size(total, len(present))
        if not present:
            asked = asked or range(total)
            nothing = pl.DataFrame(height=len(asked))
            yield DecodedChunk(partial(self._decode, nothing, asked.start + 1, wanted), 1.0)
            return
        columns = self._frame.select(map(select_column, present))
        most = CHUNK_ROWS * (2 if total > CHUNK_ROWS and self._are_short(columns) else 1)
        some = max(1, min(most, FREE_EXPANSION // max(row_bytes, 1)))
        yield from self._slice_rows(columns, asked or range(total), some, wanted)

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, in all rows."""
        schema, kinds = self.schema(), dict[str, set[type]]()
        for name, theirs in wanted.scalars.items():
            root = find_column(theirs, schema)
            if root is None:
                kinds[name] = set()
            elif _tells_kinds(schema[root], name, theirs, wanted):
                kinds[name] = classify_type(schema[root])
            else:
                column = self._frame.select(select_column(root))
                parts = (column.slice(at, CHUNK_ROWS) for at in range(0, self.height(), CHUNK_ROWS))
                kinds_of_parts = (
                    find_column_kinds(self._guard(part.collect), name, wanted) for part in parts
                )
                kinds[name] = set[type]().union(*kinds_of_parts)
        return kinds

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

    def count_bytes(self) -> int:
        """Return the size of the Parquet files that the table is read from."""
        return sum(path.stat().st_size for path in self._list_files())

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
            size, unpacked_size = (
                path.stat().st_size,
                self._guard(partial(read_unpacked_size, path)) or 0,
            )
            self._limits.check_expansion(size, unpacked_size, str(path))
            packed, unpacked = packed + size, unpacked + unpacked_size
        if packed:
            self._limits.check_expansion(packed, rows * columns * CELL_BYTES, self.name)
        return unpacked // max(rows, 1)

    def _slice_rows(
        self, columns: pl.LazyFrame, rows: range, some: int, wanted: Wanted
    ) -> Iterator[DecodedChunk]:
        """Yield slices that are read when they are decoded, so that nothing is held ahead."""
        for part in (rows[start : start + some] for start in range(0, len(rows), some)):
            slice_ = columns.slice(part.start, len(part))
            decode = partial(self._decode_slice, slice_, part.start + 1, wanted)
            yield DecodedChunk(decode, (part.stop - rows.start) / len(rows))

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
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise self._make_error(error) from error

    def _make_error(self, error: BaseException) -> DataError:
        return DataError(
            f"{self.name}: cannot be read: {shorten_error(error)}",
            fix="check that the file is whole and of the format that its name says",
        )


def _tells_kinds(dtype: pl.DataType, name: str, theirs: str, wanted: Wanted) -> bool:
    """Return True if a column's type tells what kinds of values the field holds."""
    is_measured_text = name in wanted.numbers and dtype == pl.String
    is_maybe_wide = name in wanted.keys and dtype in (pl.Int64, pl.UInt64, pl.Int128)
    is_inside = dtype.is_nested() or (dtype == pl.String and "." in theirs)
    return not (is_measured_text or is_maybe_wide or is_inside)


class Parquet(SourceTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        check_decoding([path])
        super().__init__(pl.scan_parquet(path, glob=False), str(path), str(path))


class RowList:
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
        """Look at all rows, not only the first, to find columns and types."""
        self._looked_at = len(self._rows)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the list in slices."""
        scalars = wanted.types
        if scalars is None:
            scalars = choose_types(self.find_kinds(wanted), wanted)
        for start in range(0, len(self._rows), CHUNK_ROWS):
            rows = self._rows[start : start + CHUNK_ROWS]
            done = (start + len(rows)) / len(self._rows)
            yield DecodedChunk(partial(self._decode, rows, start, wanted, scalars), done)

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, in all rows."""
        return find_kinds((row for row in self._rows if isinstance(row, Mapping)), wanted)

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
        check_decoding(parts := list_parts(path))
        for part in parts:
            alike.setdefault(tuple(Parquet(part).schema().items()), []).append(part)
        self._tables = [_AlikeParts(parts, self.name) for parts in alike.values()]

    def list_tables(self) -> list[SourceTable]:
        """Return the parts, one table each; together where their folders are columns."""
        return [each for table in self._tables for each in table.list_tables()]

    def columns(self) -> list[str]:
        """Return the columns of all parts."""
        return list(dict.fromkeys(name for table in self._tables for name in table.columns()))

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, in all parts."""
        kinds = [table.find_kinds(wanted) for table in self._tables]
        return {
            name: set[type]().union(*(kinds_of_table[name] for kinds_of_table in kinds))
            for name in wanted.scalars
        }

    def schema(self) -> pl.Schema:
        """Return the columns of all parts with their types, by the first part that has each."""
        types = (column for table in reversed(self._tables) for column in table.schema().items())
        return pl.Schema(dict(types))

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield all parts in slices of rows."""
        if wanted.types is None:
            wanted = settle_types(self._tables, wanted)
        for number, table in enumerate(self._tables):
            for chunk in table.chunks(wanted):
                decode = partial(table.locate, chunk)
                yield DecodedChunk(decode, (number + chunk.done) / len(self._tables))


class _AlikeParts(SourceTable):
    """Parts of the same columns and types, one behind the other."""

    def __init__(self, parts: list[Path], name: str) -> None:
        self._parts = parts
        super().__init__(pl.scan_parquet(parts, glob=False, hive_partitioning=True), name)

    def list_tables(self) -> list[SourceTable]:
        """Return the parts, one table each; together where their folders are columns."""
        if any("=" in part.parent.name for part in self._parts):
            return [self]
        return [Parquet(part) for part in self._parts]

    def _list_files(self) -> list[Path]:
        return self._parts

    def locate(self, chunk: DecodedChunk, *, thorough: bool = False) -> Batch:
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
