"""Bytes to blocks that end at a line's end, in order: of plain files, gzip, zstd and pipes.

Lines end at a line feed only: real strings hold U+2028 and more that `splitlines` breaks at.
Memory is bounded: by the size of a block, by its rows, and by `limits` for a line and for what
compressed data expands to.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from calipers.records.limits import BLOCK_BYTES, Limits, get_limits
from calipers.support.errors import DataError
from calipers.support.lazy_numpy import np
from calipers.support.native import open_library

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor
    from compression.zstd import ZstdError as ZstdError  # noqa: PLC0414 (for others)
else:
    from backports.zstd import ZstdDecompressor
    from backports.zstd import ZstdError as ZstdError  # noqa: PLC0414


_PEEK = 1 << 16
_PIECE = 1 << 20
_CACHED = 1 << 18  # bytes: results of this size stay in the processor's cache
_LINE_END = ord("\n")
_MOST_ROWS = 100_000  # of a block: the features of a row take up to a kilobyte
_ZSTD_PIECE = 1 << 11  # zstd expands 4 bytes to 128 kB at most: this is 64 MB at a time
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SHOWN = 200  # characters of what a decompressor says

UNREADABLE = (EOFError, OSError, zlib.error)


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines, and how many lines came before them."""

    data: bytes
    first: int


def is_compressed(head: bytes) -> bool:
    """Return True if the bytes begin as gzip or zstd do, whatever the file is called."""
    return head.startswith((_GZIP_MAGIC, _ZSTD_MAGIC))


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file, plain or compressed, that is being read."""

    stream: IO[bytes]  # what is in it
    file: IO[bytes]
    size: int

    @property
    def share(self) -> float:
        """The share of the file that has been read."""
        return min(1.0, self.file.tell() / self.size)


@contextmanager
def open_bytes(path: Path, limits: Limits | None = None) -> Iterator[OpenFile]:
    """Open a file to read what is in it.

    Raises DataError, before any work, where it expands implausibly from the start. Damaged data is
    left to the reader.
    """
    state, limits = path.stat(), limits or get_limits()
    _look_at_start(path, limits, state.st_mtime_ns, state.st_size)
    with path.open("rb") as file:
        yield OpenFile(decompress(file, str(path), limits), file, max(state.st_size, 1))


def read_blocks(
    path: Path, limits: Limits | None = None, size: int = BLOCK_BYTES
) -> Iterator[tuple[Block, float]]:
    """Yield the file's lines in blocks, each with the share of the file read so far."""
    with open_bytes(path, limits) as opened:
        is_plain = opened.stream is opened.file
        source = _WholeLines(opened.file) if is_plain else opened.stream
        for block in stream_blocks(source, str(path), limits, size):
            yield block, opened.share


def stream_blocks(
    stream: IO[bytes] | _WholeLines,
    name: str,
    limits: Limits | None = None,
    size: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield a stream's lines in blocks; raise DataError at a torn archive or an endless line."""
    limits = limits or get_limits()
    size = min(size, limits.record_bytes)  # no line within what is read at once is too long
    first = held = 0
    rest: list[bytes | memoryview] = []  # the start of a line whose end has not been read
    while data := _read(stream, size, name):
        cut = data.rfind(b"\n") + 1
        held += data.find(b"\n") + 1 or len(data)
        if held > limits.record_bytes:
            raise limits.record_too_large(f"{name}:{first + 1}")
        if not cut:
            rest.append(data)
            continue
        is_whole = cut == len(data) and not any(rest)
        block = data if is_whole else b"".join((*rest, memoryview(data)[:cut]))
        limits.check_record(block[:held], f"{name}:{first + 1}")
        rows = _count_lines(block)
        if rows <= _MOST_ROWS:
            yield Block(block, first)
        else:
            yield from _cut_by_rows(block, first)
        first += rows
        rest, held = [data[cut:]], len(data) - cut
    if last := b"".join(rest):
        limits.check_record(last, f"{name}:{first + 1}")
        yield Block(last, first)


def _count_lines(data: bytes) -> int:
    """Return the number of line ends: `bytes.count` looks at one byte at a time."""
    if len(data) < _PIECE:
        return data.count(b"\n")
    if (library := open_library()) is not None:
        return int(library.calipers_count_lines(data, len(data)))
    all_bytes = np.frombuffer(data, np.uint8)
    starts = range(0, len(data), _CACHED)
    counts = (np.count_nonzero(all_bytes[at : at + _CACHED] == _LINE_END) for at in starts)
    return sum(map(int, counts))


def _cut_by_rows(data: bytes, first: int) -> Iterator[Block]:
    """Yield blocks of few enough rows, where lines are very short."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END)
    start = 0
    for number, end in enumerate([*ends[_MOST_ROWS - 1 : -1 : _MOST_ROWS], ends[-1]]):
        yield Block(data[start : end + 1], first + number * _MOST_ROWS)
        start = int(end) + 1


def read_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a stream; raise DataError at one that is too long."""
    limits = get_limits()
    number = 0
    while line := stream.readline(limits.record_bytes + 1):
        number += 1
        limits.check_record(line, f"{name}:{number}")
        yield line


def read_document(stream: IO[bytes], name: str) -> bytes:
    """Return all bytes of a JSON document, which is held in memory; raise where it is too large."""
    limits = get_limits()
    parts: list[bytes] = []
    size = 0
    while data := stream.read(_PIECE):
        parts.append(data)
        size += len(data)
        if size > limits.document_bytes:
            raise limits.make_document_error(name)
    document = b"".join(parts)
    limits.check_values(document, name)
    return document


@lru_cache(maxsize=1_000)
def _look_at_start(path: Path, limits: Limits, *_: int) -> None:
    with path.open("rb") as file:
        if not is_compressed(file.read(4)):
            return
        file.seek(0)
        stream = decompress(file, str(path), limits)
        expanded = 0
        try:
            while data := stream.read(_PIECE):
                expanded += len(data)
                consumed = file.tell() - 2 * _PEEK  # at least: some is read ahead
                if expanded < limits.max_expansion * consumed:
                    return
        except UNREADABLE:
            return


def decompress(stream: IO[bytes], name: str, limits: Limits | None = None) -> IO[bytes]:
    """Return the decompressed stream of gzip or zstd; plain streams pass through.

    Reading raises DataError where the data expands implausibly.
    """
    head = _peek(stream)
    if not is_compressed(head):
        return stream
    packed = _Counted(stream)
    source = io.BufferedReader(packed, _PEEK)
    is_gzip = head.startswith(_GZIP_MAGIC)
    unpacked = gzip.GzipFile(fileobj=source) if is_gzip else PieceStream(_unpack_frames(source))
    return io.BufferedReader(_Checked(unpacked, packed, name, limits or get_limits()), _PEEK)


class _WholeLines:
    """A plain file that is read up to a line's end, so that nothing has to be put together.

    To copy a block takes three times as long as to read it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """Return so many bytes, or fewer: up to the last line's end if one is near the end."""
        start, near = self._file.tell(), min(size, _PEEK)
        self._file.seek(start + size - near)
        tail = self._file.read(near)
        self._file.seek(start)
        cut = tail.rfind(b"\n") + 1 if len(tail) == near else 0
        return self._file.read(size - near + cut if cut else size)


class _Readable(io.RawIOBase):
    def readable(self) -> bool:
        return True


class _Counted(_Readable):
    """A stream that counts what is read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream: Any = stream
        self.count = 0

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer) or 0
        self.count += count
        return count


class _Checked(_Readable):
    """Unpacked data, checked while reading against the size of the compressed data."""

    def __init__(self, unpacked: Any, packed: _Counted, name: str, limits: Limits) -> None:
        self._unpacked, self._packed = unpacked, packed
        self._name, self._limits = name, limits
        self._count = 0

    def readinto(self, buffer: Any) -> int:
        count: int = self._unpacked.readinto(buffer)
        self._count += count
        self._limits.check_expansion(self._packed.count, self._count, self._name)
        return count


class PieceStream(_Readable):
    """A stream of bytes that come in pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end."""
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _unpack_frames(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what is in the frames of a zstd stream.

    Raises:
        EOFError: It is cut short.
        OSError: It is damaged.
    """
    frame, packed = ZstdDecompressor(), b""
    is_whole = True  # nothing of a frame has been read, or all of it
    while packed := packed or stream.read(_ZSTD_PIECE):
        try:
            yield frame.decompress(packed)
        except ZstdError as error:
            raise OSError(str(error)) from error
        is_whole, packed = frame.eof, frame.unused_data
        if is_whole:
            frame = ZstdDecompressor()
    if not is_whole:
        raise EOFError("it ends inside a frame")


def _peek(stream: IO[bytes]) -> bytes:
    if stream.seekable():
        head = stream.read(4)
        stream.seek(-len(head), os.SEEK_CUR)
        return head
    return cast("io.BufferedReader", stream).peek(4)[:4]


def _read(stream: IO[bytes] | _WholeLines, size: int, name: str) -> bytes:
    try:
        return stream.read(size)
    except UNREADABLE as error:
        raise make_damage_error(name, error) from error


def make_damage_error(name: str, error: Exception) -> DataError:
    """Return the error for a file that cannot be unpacked to its end."""
    return DataError(
        f"{name}: the compressed data is damaged or cut short ({shorten_error(error)})",
        fix="get the file again, or decompress what is left of it by hand",
    )


def shorten_error(error: BaseException) -> str:
    """Return the first line of a library's message, cut: some contain the data itself."""
    message = (str(error) or type(error).__name__).splitlines()[0]
    return message if len(message) <= _SHOWN else f"{message[: _SHOWN - 1]}…"
