"""CSV with a header, in blocks of whole rows.

An empty cell is a null, the cells take the record's types. Where the header has no comma, cells may
be separated by semicolons or tabs, as spreadsheets of many countries write them.

The blocks are cut here, not by Polars: it unpacks a compressed file in memory as a whole, and its
streaming reader takes memory with the square of the columns.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import polars as pl

from calipers.records.batch import DecodedChunk, Wanted, find_column
from calipers.records.columns import conform_columns, find_column_kinds
from calipers.records.limits import BLOCK_BYTES, get_limits
from calipers.records.readers.bytestream import (
    UNREADABLE,
    make_damage_error,
    open_bytes,
    shorten_error,
)
from calipers.records.rows import Kinds, choose_types
from calipers.support.errors import DataError

MOST_COLUMNS = 50_000
_CHUNK_ROWS = 50_000
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = ",;\t"
_QUOTED_CELL = re.compile(rb'"[^"]*"')
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how `surrogateescape` shows the bytes
_LONGEST_CELL = 2**31 - 1


class Csv:
    """A CSV file, plain or compressed."""

    def __init__(self, path: Path) -> None:
        self.path: str | None = str(path)
        self.name = str(path)
        self.limits = get_limits()

    def columns(self) -> list[str]:
        """Return the names in the header; a name that is there twice gets a suffix."""
        return self._parse(b"", 1).columns

    def chunks(self, wanted: Wanted) -> Iterator[DecodedChunk]:
        """Yield the rows in slices, blank ones left out."""
        if wanted.types is None:
            wanted = replace(wanted, types=choose_types(self.find_kinds(wanted), wanted))
        row = 1
        for part, done in self.frames():
            yield DecodedChunk(
                partial(conform_columns, part, wanted, self.name, row, parse=True), done
            )
            row += part.height

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar: text, in cells."""
        columns, scalars = self.columns(), wanted.scalars
        kinds: Kinds = {
            name: {str} if theirs in columns else set() for name, theirs in scalars.items()
        }
        measured = wanted.numbers & scalars.keys()
        inside = {name for name, theirs in scalars.items() if theirs not in columns}
        unknown = [
            name
            for name in scalars
            if name in measured | inside and find_column(scalars[name], columns) is not None
        ]
        kinds |= {name: set() for name in unknown}
        for part, _ in self.frames() if unknown else ():
            for name in unknown:
                kinds[name] |= find_column_kinds(part, name, wanted)
        return kinds

    def frames(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Yield the rows as tables of texts, blank ones left out, and the share behind each."""
        row = 1
        blocks = self._blocks()
        first = ((data.lstrip(b"\r\n")[len(self._header) :], done) for data, done in [next(blocks)])
        for data, done in chain(first, blocks):
            for part in _drop_blank_rows(self._parse(data, row)).iter_slices(_CHUNK_ROWS):
                yield part, done
                row += part.height

    @cached_property
    def _header(self) -> bytes:
        """The first line that is not blank, with its end if it has one."""
        data, _ = next(self._blocks())
        data = data.lstrip(b"\r\n")
        end = _find_first_end(data)
        separator = _find_separator(data[:end]).encode()
        if (count := data.count(separator, 0, end) + 1) > MOST_COLUMNS:
            raise DataError(
                f"{self.name}: {count:,} columns, more than {MOST_COLUMNS:,}",
                fix="keep the columns that are needed",
            )
        return data[:end]

    @cached_property
    def separator(self) -> str:
        """The character between two cells."""
        return _find_separator(self._header)

    def _blocks(self) -> Iterator[tuple[bytes, float]]:
        """Yield whole rows, as bytes, and the share of the file that is behind them."""
        held, at_start = b"", True
        with open_bytes(Path(self.name), self.limits) as opened:
            try:
                while data := opened.stream.read(BLOCK_BYTES):
                    held = data.removeprefix(_BOM) if at_start else held + data
                    at_start = False
                    if end := _find_last_end(held):
                        yield held[:end], opened.share
                        held = held[end:]
                    if len(held) > self.limits.record_bytes:
                        hint = ": a quote that never ends?"
                        raise self.limits.record_too_large(self.name, hint=hint)
            except UNREADABLE as error:
                raise make_damage_error(self.name, error) from error
        yield held, 1.0

    def _parse(self, rows: bytes, first_row: int) -> pl.DataFrame:
        header = self._header
        data = header + rows if header.endswith(b"\n") else header + b"\n" + rows
        if not data.strip():
            return pl.DataFrame()
        try:
            frame = pl.read_csv(
                data, separator=self.separator, infer_schema=False, raise_if_empty=False
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            bad = _find_bad_row(data, self.separator)
            if bad is None:
                raise DataError(
                    f"{self.name}: cannot be read: {shorten_error(error)}",
                    fix="check that the file is whole and of the format that its name says",
                ) from error
            raise DataError(
                f"{self.name}:{first_row - 1 + bad[0]}: {bad[1]}",
                fix="write UTF-8, and quote cells with commas, quotes or line breaks (RFC 4180)",
            ) from error
        if b'""' in header:  # Polars leaves quotes doubled in names, unlike in cells
            frame.columns = [name.replace('""', '"') for name in frame.columns]
        return frame


def _find_separator(header: bytes) -> str:
    """Return the first of comma, semicolon and tab that stands in a header, outside quotes."""
    bare = _QUOTED_CELL.sub(b"", header).decode(errors="replace")
    return next((separator for separator in _SEPARATORS if separator in bare), ",")


def _drop_blank_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a value in any cell; mostly the first column tells."""
    blank = pl.Series([True]).new_from_index(0, frame.height)
    for column in frame.iter_columns():
        if not blank.any():
            return frame
        blank &= column.alias("").is_null()  # a name such as ^x$ would be read as a pattern
    return frame.filter(~blank) if frame.width else frame


def _find_first_end(data: bytes) -> int:
    """Return where the first row ends: at a line's end outside quotes, or at the data's end."""
    at = quotes = 0
    while end := data.find(b"\n", at) + 1:
        quotes += data.count(b'"', at, end)
        if quotes % 2 == 0:
            return end
        at = data.find(b'"', end)  # inside quotes only a quote counts
        if at < 0:
            break
    return len(data)


def _find_last_end(data: bytes) -> int:
    """Return where the last whole row ends; 0 without one."""
    quotes = data.count(b'"')
    at = len(data)
    while (end := data.rfind(b"\n", 0, at)) >= 0:
        quotes -= data.count(b'"', end, at)
        if quotes % 2 == 0:
            return end + 1
        at = data.rfind(b'"', 0, end)  # inside quotes: they began before
        if at < 0:
            return 0
        quotes -= data.count(b'"', at, end)
    return 0


def _find_bad_row(data: bytes, separator: str) -> tuple[int, str] | None:
    """Return the number of the first row that is not CSV, and what is wrong; None if all are."""
    longest = csv.field_size_limit(_LONGEST_CELL)
    number = 0
    try:
        with io.TextIOWrapper(
            io.BytesIO(data), "utf-8-sig", errors="surrogateescape", newline=""
        ) as text:
            rows = (
                cells for cells in csv.reader(text, delimiter=separator, strict=True) if any(cells)
            )
            names = next(rows, [])
            for number, cells in enumerate(rows, start=1):
                if len(cells) > len(names):
                    return number, f"{len(cells)} cells where the header has {len(names)}"
                for name, cell in zip(names, cells, strict=False):
                    if _NOT_UTF8.search(cell):
                        return number, f"{name[:60]}: invalid UTF-8"
    except csv.Error as error:
        return number + 1, f"not CSV: {error}"
    finally:
        csv.field_size_limit(longest)
    return None
