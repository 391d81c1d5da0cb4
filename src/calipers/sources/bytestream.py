"""Bytes to blocks that end at a line's end: plain files by range, gzip, zstd and pipes in order.

Lines end at a line feed only: real strings hold U+2028 and more that `splitlines` breaks at.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from calipers.errors import DataError

BLOCK_BYTES = 16 << 20
_PEEK = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

UNREADABLE = (EOFError, OSError, zlib.error, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class FileRange:
    """Some whole lines of a plain file, read when asked for."""

    path: Path
    start: int
    end: int

    def load(self) -> bytes:
        """The bytes."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.start)
            return file.read(self.end - self.start)

    def lines_before(self) -> int:
        """How many lines stand before this range; counted only when an error must name a line."""
        count = 0
        with self.path.open("rb") as file:
            left = self.start
            while left and (data := file.read(min(left, BLOCK_BYTES))):
                count += data.count(b"\n")
                left -= len(data)
        return count


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """Some whole lines of a stream that can be read only once."""

    data: bytes
    first: int

    def load(self) -> bytes:
        """The bytes."""
        return self.data

    def lines_before(self) -> int:
        """How many lines came before."""
        return self.first


Block = FileRange | HeldBlock


def is_compressed(head: bytes) -> bool:
    """Say whether the bytes begin as gzip or zstd do, whatever the file is called."""
    return head.startswith((_GZIP_MAGIC, _ZSTD_MAGIC))


def file_blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[tuple[Block, float]]:
    """The file's lines in blocks, each with the share of the file that is behind it."""
    total = path.stat().st_size
    with path.open("rb") as file:
        if is_compressed(file.read(4)):
            file.seek(0)
            for block in stream_blocks(decompressed(file), str(path), size):
                yield block, min(1.0, file.tell() / max(total, 1))
            return
        start = 0
        while start < total:
            end = _line_end(file, start + size, total)
            yield FileRange(path, start, end), end / total
            start = end


def _line_end(file: IO[bytes], position: int, total: int) -> int:
    """The first line's end at or behind `position`."""
    position -= 1
    while position < total:
        file.seek(position)
        window = file.read(_PEEK)
        found = window.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(window)
    return total


def stream_blocks(stream: IO[bytes], name: str, size: int = BLOCK_BYTES) -> Iterator[HeldBlock]:
    """A stream's lines in blocks; a torn archive is a clear error."""
    first = 0
    rest: list[bytes] = []
    while data := _read(stream, size, name):
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest.append(data)
            continue
        block = b"".join((*rest, data[:cut]))
        yield HeldBlock(block, first)
        first += block.count(b"\n")
        rest = [data[cut:]]
    if last := b"".join(rest):
        yield HeldBlock(last, first)


def decompressed(stream: IO[bytes]) -> IO[bytes]:
    """The stream as it was before gzip or zstd; plain streams pass through."""
    head, stream = _peek(stream)
    if head.startswith(_GZIP_MAGIC):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    if head.startswith(_ZSTD_MAGIC):
        return io.BufferedReader(_ZstdFrames(stream))
    return stream


class _ZstdFrames(io.RawIOBase):
    """The frames of a zstd stream. Unlike zstandard's own reader it minds one that is cut short."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_whole = True  # nothing of a frame has been read, or all of it
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end."""
        while not self._ready and self._fetch():
            self._unpack()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _fetch(self) -> bool:
        self._packed = self._packed or self._stream.read(_PEEK)
        if not self._packed and not self._is_whole:
            raise EOFError("it ends inside a frame")
        return bool(self._packed)

    def _unpack(self) -> None:
        self._ready = memoryview(self._frame.decompress(self._packed))
        self._is_whole, self._packed = self._frame.eof, self._frame.unused_data
        if self._is_whole:
            self._frame = zstandard.ZstdDecompressor().decompressobj()


def _peek(stream: IO[bytes]) -> tuple[bytes, IO[bytes]]:
    if stream.seekable():
        head = stream.read(4)
        stream.seek(-len(head), os.SEEK_CUR)
        return head, stream
    piped = cast("io.BufferedReader", stream)
    return piped.peek(4)[:4], stream


def _read(stream: IO[bytes], size: int, name: str) -> bytes:
    try:
        return stream.read(size)
    except UNREADABLE as error:
        raise cut_short(name, error) from error


def cut_short(name: str, error: Exception) -> DataError:
    """What to say of a file that cannot be unpacked to its end."""
    return DataError(
        f"{name}: the compressed data is damaged or cut short ({error})",
        fix="get the file again, or decompress what is left of it by hand",
    )
