"""Tables: Parquet files, frames and lists in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from calipers.records.batch import Batch, Chunk, Decoded, Wanted
from calipers.records.bytestream import brief
from calipers.records.columns import conformed
from calipers.records.completing import inputs_of
from calipers.records.fields import BadValue
from calipers.records.limits import FREE_EXPANSION, current_limits
from calipers.records.parquet_footer import unpacked_bytes
from calipers.records.rows import checked, scalar_types
from calipers.support.errors import DataError

CHUNK_ROWS = 50_000
_SNIFF_ROWS = 200
_CELL_BYTES = 4  # at least, once it is read

T = TypeVar("T")


class SourceTable:
    """Columns with types of their own: a lazy Polars frame and a name to report rows by."""

    def __init__(self, frame: pl.LazyFrame, name: str, path: str | None = None) -> None:
        self.name = name
        self.path = path
        self._frame = frame
        self._limits = current_limits()

    def columns(self) -> list[str]:
        """The columns' names."""
        return self.schema().names()

    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._guarded(self._frame.collect_schema)

    def chunks(self, wanted: Wanted) -> Iterator[Decoded]:
        """The table in slices of rows, only the wanted columns of it."""
        present = wanted.columns(set(self.columns()), inputs_of(wanted))
        total = self._guarded(lambda: self._frame.select(pl.len()).collect().item())
        row_bytes = self._check_size(total, len(present))
        if not present:
            yield Decoded(partial(self._decode, pl.DataFrame(height=total), 1, wanted), 1.0)
            return
        some = max(1, min(CHUNK_ROWS, FREE_EXPANSION // max(row_bytes, 1)))
        yield from self._pieces(self._rows().select(present), total, some, wanted)

    def _files(self) -> list[Path]:
        """The Parquet files that the table is read from."""
        return [] if self.path is None else [Path(self.path)]

    def _check_size(self, rows: int, columns: int) -> int:
        """Return about how many bytes a row has, of all columns; 0 where no file tells.

        Raises:
            DataError: A small file claims very much: what is all alike packs well.
        """
        packed = unpacked = 0
        for path in self._files():
            size, said = path.stat().st_size, self._guarded(partial(unpacked_bytes, path)) or 0
            self._limits.check_expansion(size, said, str(path))
            packed, unpacked = packed + size, unpacked + said
        if packed:
            self._limits.check_expansion(packed, rows * columns * _CELL_BYTES, self.name)
        return unpacked // max(rows, 1)

    def _pieces(
        self, rows: pl.LazyFrame, total: int, some: int, wanted: Wanted
    ) -> Iterator[Decoded]:
        """Slices that are read when they are decoded, so that nothing is read ahead and held."""
        for start in range(0, total, some):
            yield Decoded(
                partial(self._decode_slice, rows.slice(start, some), start + 1, wanted),
                min(1.0, (start + some) / total),
            )

    def _decode_slice(
        self, rows: pl.LazyFrame, first_row: int, wanted: Wanted, *, thorough: bool = False
    ) -> Batch:
        return self._decode(self._guarded(rows.collect), first_row, wanted, thorough=thorough)

    def frame(self) -> pl.DataFrame:
        """The whole table."""
        return self._guarded(self._frame.collect)

    def _rows(self) -> pl.LazyFrame:
        """The rows that are records."""
        return self._frame

    def _decode(
        self, frame: pl.DataFrame, first_row: int, wanted: Wanted, *, thorough: bool = False
    ) -> Batch:
        return conformed(frame, wanted, self.name, first_row, thorough=thorough)

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(
            f"{self.name}: cannot be read: {brief(error)}",
            fix="check that the file is whole and of the format that its name says",
        )


class Parquet(SourceTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(pl.scan_parquet(path, glob=False), str(path), str(path))

    def height(self) -> int:
        """The number of rows."""
        return int(self._guarded(lambda: self._frame.select(pl.len()).collect().item()))


class Rows:
    """Records in memory, as a list of dicts."""

    path: str | None = None

    def __init__(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        self.name = name
        self._rows = rows
        self._looked_at = _SNIFF_ROWS

    def columns(self) -> list[str]:
        """The keys of the first rows."""
        return list(dict.fromkeys(key for row in self.first_rows() for key in row))

    def look_through(self) -> None:
        """Take all rows for the first ones."""
        self._looked_at = len(self._rows)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """The list in slices."""
        scalars = self.scalar_types(wanted)
        for start in range(0, len(self._rows), CHUNK_ROWS):
            rows = self._rows[start : start + CHUNK_ROWS]
            done = (start + len(rows)) / len(self._rows)
            yield Decoded(partial(self._decode, rows, start, wanted, scalars), done)

    def scalar_types(self, wanted: Wanted) -> dict[str, pl.DataType]:
        """The types that fields of any scalar have in the first rows."""
        return scalar_types(self.first_rows(), wanted)

    def first_rows(self) -> list[Mapping[str, Any]]:
        """The first rows."""
        rows = islice(self._rows, self._looked_at)
        return [row for row in rows if isinstance(row, Mapping)]

    def as_lines(self) -> Iterator[str]:
        """The rows as JSON lines, for workers elsewhere."""
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
        return checked(numbered, wanted, self.name, scalars)
