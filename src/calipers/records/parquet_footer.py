"""The uncompressed size of a Parquet file, according to its footer.

The footer is in Thrift's compact protocol, of which only what it takes to find the row groups'
`total_byte_size` is read here; https://parquet.apache.org/docs/file-format/metadata/ has the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"PAR1"
_TAIL = 8  # bytes: the footer's length and the magic number
_LARGEST = 64 << 20  # a footer beyond that is left to Polars
_DEEPEST = 16
_ROW_GROUPS, _TOTAL_BYTE_SIZE = 4, 2  # the fields' numbers
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_WHOLE = (4, 5, 6)
_LISTS = (9, 10)
_LONG_LIST = 15


def read_unpacked_size(path: Path) -> int | None:
    """Return the bytes of all columns before compression; None if the footer does not say."""
    footer = _read_footer(path)
    if footer is None:
        return None
    try:
        return _FooterReader(footer).read_file_size()
    except (IndexError, ValueError):
        return None


def _read_footer(path: Path) -> bytes | None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or not 0 < length <= min(_LARGEST, size - _TAIL):
            return None
        file.seek(size - _TAIL - length)
        return file.read(length)


class _FooterReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_file_size(self) -> int:
        total = 0
        for number, kind in self._walk_fields():
            if number == _ROW_GROUPS and kind in _LISTS:
                count, of = self._list()
                if of != _STRUCT:
                    raise ValueError("row groups are structs")
                total += sum(self._read_row_group() for _ in range(count))
            else:
                self._skip(kind)
        return total

    def _read_row_group(self) -> int:
        size = 0
        for number, kind in self._walk_fields():
            if number == _TOTAL_BYTE_SIZE and kind in _WHOLE:
                size = max(0, self._read_signed())
            else:
                self._skip(kind)
        return size

    def _walk_fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and type of each field of a struct; whoever iterates takes its value."""
        number = 0
        while (head := self._read_byte()) != _STOP:
            step = head >> 4
            number = number + step if step else self._read_signed()
            yield number, head & 15

    def _list(self) -> tuple[int, int]:
        head = self._read_byte()
        count = head >> 4
        return (self._read_whole() if count == _LONG_LIST else count), head & 15

    def _skip(self, kind: int, depth: int = 0, *, in_list: bool = False) -> None:  # noqa: C901
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        if kind in (_TRUE, _FALSE):
            self._at += in_list  # a field's type is its value
        elif kind in _WHOLE:
            self._read_whole()
        elif kind == _BYTE:
            self._at += 1
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._read_whole()  # moves on by itself
            self._at += length
        elif kind in _LISTS:
            count, of = self._list()
            for _ in range(count):
                self._skip(of, depth + 1, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self._walk_fields():
                self._skip(inner, depth + 1)
        else:  # a map: Parquet has none
            raise ValueError("unknown type")

    def _read_signed(self) -> int:
        value = self._read_whole()
        return (value >> 1) ^ -(value & 1)

    def _read_whole(self) -> int:
        value = shift = 0
        while True:
            byte = self._read_byte()
            value |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 (the last seven bits)
                return value
            shift += 7
            if shift > 63:  # noqa: PLR2004
                raise ValueError("a number beyond 64 bits")

    def _read_byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte
