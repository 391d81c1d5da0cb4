"""Parquet files are decoded in a process of their own before they are decoded in this one.

Polars aborts the process on some damaged files, of which a few bytes say "so many values follow":
within compressed pages, where no look at the headers finds them. A file that ends the process that
tries it is an error with a message here, so that a dashboard or a notebook lives on.

The footer says how large the columns are before compression. It is in Thrift's compact protocol, of
which only what leads to the row groups' `total_byte_size` is read;
https://parquet.apache.org/docs/file-format/metadata/ has the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from calipers.records.limits import FREE_EXPANSION, get_limits
from calipers.support.errors import DataError

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


SMALL = 32 << 20
"""Bytes of the files that are tried first, as a rule: to decode larger ones twice takes long."""

CELL_BYTES = 4
"""Of a value of a column, at least, once it is read."""

_PATIENCE = 60.0  # seconds, and one more for each of so many bytes
_SLOWEST = 1 << 20
_MEMORY, _EXPANSION = 4 << 30, 64  # bytes that a try may have, and more for each byte of the file
_CODE = """
import os, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (ImportError, OSError, ValueError):
    pass
os.environ["POLARS_MAX_THREADS"] = "1"
import polars as pl
for path in sys.stdin.buffer.read().split(b"\\0"):
    sys.stdout.buffer.write(path + b"\\0")
    sys.stdout.flush()
    try:
        table = pl.scan_parquet(os.fsdecode(path), glob=False)
        cells = table.select(pl.len()).collect().item() * len(table.collect_schema())
        if cells <= int(sys.argv[2]):  # of more, whoever reads it says that it expands too far
            for batch in table.collect_batches(chunk_size=50_000):
                pass
    except (pl.exceptions.PolarsError, OSError):
        pass
"""
_Version = tuple[str, int, int]
_good: set[_Version] = set()


def check_decoding(paths: Sequence[Path], *, largest: int | None = SMALL) -> None:
    """Decode files apart, those of up to `largest` bytes that were not tried since they changed.

    A file that Polars merely refuses passes: who reads it says so.

    Raises:
        DataError: A file ends the process that decodes it, takes too long, or expands too far.
    """
    untried = {path: version for path in paths if (version := _read_version(path)) not in _good}
    chosen = {
        path: version
        for path, version in untried.items()
        if version is not None and (largest is None or version[1] <= largest)
    }
    if chosen and sys.executable and not getattr(sys, "frozen", False):
        for path, (_, size, _) in chosen.items():
            get_limits().check_expansion(size, read_unpacked_size(path) or 0, str(path))
        _try_apart(list(chosen), sum(size for _, size, _ in chosen.values()))
        _good.update(chosen.values())


def _read_version(path: Path) -> _Version | None:
    """Return what changes whenever the file does; None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None  # who reads it says so
    return str(path.absolute()), state.st_size, state.st_mtime_ns


def _try_apart(paths: Sequence[Path], size: int) -> None:
    most_cells = int(max(FREE_EXPANSION, get_limits().max_expansion * size) / CELL_BYTES)
    memory = _MEMORY + _EXPANSION * size
    command = [sys.executable, "-I", "-c", _CODE, str(memory), str(most_cells)]
    names = b"\0".join(os.fsencode(path.absolute()) for path in paths)
    tried, reason = b"", "it takes too long"
    try:
        done = subprocess.run(  # noqa: S603 (this very code)
            command,
            input=names,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE + size / _SLOWEST,
            check=False,
        )
        tried, reason = done.stdout, _describe_end(done.returncode)
        if done.returncode == 0:
            return
    except subprocess.TimeoutExpired as error:
        tried = error.stdout or b""
    last = tried.rstrip(b"\0").rpartition(b"\0")[2]
    raise DataError(
        f"{os.fsdecode(last) or paths[0]}: cannot be decoded: {reason}",
        fix="the file is damaged: write it again",
    )


def _describe_end(code: int) -> str:
    if code >= 0:
        return "the decoder gave up on it"
    return f"the decoder was ended by it ({signal.Signals(-code).name})"
