"""Tables: Parquet files and folders, CSV, frames and lists in memory."""

from __future__ import annotations

import csv
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import polars as pl
from zstandard import ZstdError

from calipers.errors import DataError
from calipers.records import BadValue
from calipers.sources.batch import Batch, Chunk, Decoded, Wanted
from calipers.sources.bytestream import decompressed
from calipers.sources.columns import conformed
from calipers.sources.rows import checked, scalar_types

CHUNK_ROWS = 50_000
_SNIFF_ROWS = 200

T = TypeVar("T")


class Table:
    """Columns with types of their own: a lazy Polars frame and a name to report rows by."""

    parse = False  # whether numbers are to be read from text

    def __init__(self, frame: pl.LazyFrame, name: str, path: str | None = None) -> None:
        self.name = name
        self.path = path
        self._frame = frame

    def columns(self) -> list[str]:
        """The columns' names."""
        return self._guarded(lambda: self._frame.collect_schema().names())

    def chunks(self, wanted: Wanted) -> Iterator[Decoded]:
        """The table in slices of rows, only the wanted columns of it."""
        names = set(self.columns())
        theirs = dict.fromkeys(wanted.theirs(name) for name in wanted.fields)
        present = [name for name in theirs if name in names]
        total = self._guarded(lambda: self._frame.select(pl.len()).collect().item())
        if not present:
            yield Decoded(partial(self._decode, pl.DataFrame(height=total), 1, wanted), 1.0)
            return
        yield from self._pieces(self._rows().select(present), total, wanted)

    def _pieces(self, rows: pl.LazyFrame, total: int, wanted: Wanted) -> Iterator[Decoded]:
        """Slices that are read when they are decoded, so that nothing is read ahead and held."""
        for start in range(0, total, CHUNK_ROWS):
            yield Decoded(
                partial(self._decode_slice, rows.slice(start, CHUNK_ROWS), start + 1, wanted),
                min(1.0, (start + CHUNK_ROWS) / total),
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
        return conformed(frame, wanted, self.name, first_row, parse=self.parse, thorough=thorough)

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(
            f"{self.name}: cannot be read: {str(error).splitlines()[0]}",
            fix="check that the file is whole and of the format that its name says",
        )


class Parquet(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(pl.scan_parquet(path, glob=False), str(path), str(path))

    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._guarded(self._frame.collect_schema)

    def height(self) -> int:
        """The number of rows."""
        return int(self._guarded(lambda: self._frame.select(pl.len()).collect().item()))


class Csv(Table):
    """A CSV file with a header; an empty cell is a null, the cells take the record's types."""

    parse = True

    def __init__(self, source: Path | bytes, name: str | None = None) -> None:
        self._source = source
        path = str(source) if isinstance(source, Path) else None
        frame = pl.scan_csv(source, infer_schema=False, glob=False, raise_if_empty=False)
        super().__init__(frame, name or str(source), path)

    def _rows(self) -> pl.LazyFrame:
        """All but blank lines."""
        return self._frame.filter(~pl.all_horizontal(pl.all().is_null()))

    def _pieces(self, rows: pl.LazyFrame, total: int, wanted: Wanted) -> Iterator[Decoded]:
        """In order, from one pass: a slice of a CSV file cannot be found without reading to it."""
        row = 1
        batches = self._guarded(
            lambda: rows.collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True)
        )
        while (frame := self._guarded(lambda: next(batches, None))) is not None:
            done = (row - 1 + frame.height) / max(total, 1)
            yield Decoded(partial(self._decode, frame, row, wanted), done)
            row += frame.height

    def _unreadable(self, error: Exception) -> DataError:
        bad = self._first_bad_row()
        if bad is None:
            return super()._unreadable(error)
        row, problem = bad
        return DataError(
            f"{self.name}:{row}: {problem}",
            fix="write UTF-8, and quote cells with commas, quotes or line breaks (RFC 4180)",
        )

    def _first_bad_row(self) -> tuple[int, str] | None:
        raw = (
            self._source.open("rb") if isinstance(self._source, Path) else io.BytesIO(self._source)
        )
        with raw, _utf8(decompressed(raw)) as text:
            rows = (cells for cells in csv.reader(text, strict=True) if any(cells))
            number = 0
            try:
                names = next(rows, [])
                for number, cells in enumerate(rows, start=1):
                    if len(cells) > len(names):
                        return number, f"{len(cells)} cells where the header has {len(names)}"
                    for name, cell in zip(names, cells, strict=False):
                        if _NOT_UTF8.search(cell):
                            return number, f"{name}: invalid UTF-8"
            except csv.Error as error:
                return number + 1, f"not CSV: {error}"
            except (OSError, EOFError, zlib.error, ZstdError):
                return None
        return None


_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how `_utf8` shows the bytes


def _utf8(stream: IO[bytes]) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")


class Rows:
    """Records in memory, as a list of dicts."""

    path: str | None = None

    def __init__(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        self.name = name
        self._rows = rows
        self._looked_at = _SNIFF_ROWS

    def columns(self) -> list[str]:
        """The keys of the first rows."""
        return list(dict.fromkeys(key for row in self._head() for key in row))

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
        return scalar_types(self._head(), wanted)

    def _head(self) -> list[Mapping[str, Any]]:
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
