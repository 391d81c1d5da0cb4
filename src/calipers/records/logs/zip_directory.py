"""A zip's central directory, in a third of the memory of Python's own reader, and its members.

Only the offset of each entry is kept; an entry is read when its member is. Python's own reader
takes longer to open a member than to unpack it, and knows no zstd before 3.14.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from os import SEEK_CUR
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 (a class)
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile

from calipers.records.limits import get_limits
from calipers.records.logs.parts import parse_json
from calipers.support.zstd import ZstdDecompressor, ZstdError

_END = Struct("<4s8xLLH")  # the bytes of the directory, where it begins, the bytes of a comment
_END_MAGIC = b"PK\x05\x06"
_LONGEST_END = _END.size + (1 << 16)
_LARGE_END = Struct("<4s36xQQ")  # bytes and beginning, where they are beyond 32 bits
_LARGE_END_MAGIC = b"PK\x06\x06"
_LOCATOR = 20  # bytes between the two ends
_ENTRY = Struct("<8x2H4x3L2H10xL")
_ENTRY_MAGIC = b"PK\x01\x02"
_LENGTHS = Struct("<24xL3H")  # of an entry: of what is packed, of name, extra fields and comment
_EXTRA = Struct("<2H")  # before an extra field: what it is, and its bytes
_LARGE_EXTRA = 1  # it has the numbers beyond 32 bits
_LARGE = 0xFFFFFFFF  # in their place
DAMAGE = (
    *(BadZipFile, EOFError, ZstdError, zlib.error),
    NotImplementedError,  # a way of packing that no one knows
    RuntimeError,  # encrypted
    ValueError,  # a place before the file's start
)
_ENCRYPTED = 1  # the bit of a member's flags
_LOCAL_HEADER = Struct("<26x2H")  # before the data: the bytes of a name, and of extra fields
_BUFFER = 1 << 20
_ZSTD = 93  # the method that is zstd
_MAGIC = b"PK\x03\x04"


class Member(NamedTuple):
    """One file in the zip: where it is, and how it is packed."""

    name: str
    offset: int
    packed: int
    size: int
    checksum: int
    method: int
    flags: int


class Directory:
    """What a zip holds; of a member that was written twice the last counts."""

    def __init__(self, entries: bytes, start: int, end: int) -> None:
        self._entries = entries
        self._start, self._end = start, end  # of the members, in the file
        self.expanded = 0
        places: dict[bytes, int] = {}
        at = 0
        while at < len(entries):
            if not entries.startswith(_ENTRY_MAGIC, at):
                raise BadZipFile("no entry where one should be in the directory")
            size, name, extra, comment = _LENGTHS.unpack_from(entries, at)
            begin = at + _ENTRY.size
            self.expanded += self._read_entry(at).size if size == _LARGE else size
            places[entries[begin : begin + name]] = at
            at = begin + name + extra + comment
        if at != len(entries):
            raise BadZipFile("the directory is cut short")
        self._places = array("Q", places.values())  # the names alone would take twice as much

    def list_places(self, pattern: re.Pattern[bytes]) -> Sequence[int]:
        """Return the places of the members whose whole names match, in their order."""
        return array(
            "Q", (each for each in self._places if pattern.fullmatch(self._get_name(each)))
        )

    def _get_name(self, at: int) -> bytes:
        _, length, _, _ = _LENGTHS.unpack_from(self._entries, at)
        begin = at + _ENTRY.size
        return self._entries[begin : begin + length]

    def read(self, place: int) -> Member:
        """Return the member at a place.

        Raises:
            BadZipFile: It is not where it should be in the file.
        """
        member = self._read_entry(place)
        if member.offset + member.packed > self._end:
            raise BadZipFile(f"{member.name} does not end before the directory")
        return member

    def _read_entry(self, at: int) -> Member:
        entry = _ENTRY.unpack_from(self._entries, at)
        flags, method, checksum, packed, size, length, extra, offset = entry
        name = self._get_name(at).decode(errors="replace")
        if _LARGE in (packed, size, offset):
            end = at + _ENTRY.size + length
            large = _list_large(self._entries[end : end + extra])
            size, packed, offset = (
                large.pop(0) if each == _LARGE and large else each
                for each in (size, packed, offset)
            )
        return Member(name, offset + self._start, packed, size, checksum, method, flags)


def read_directory(path: Path) -> Directory:
    """Return what the zip holds; read once as long as the file stays as it is.

    Raises:
        BadZipFile: It is not a zip, or not all of one.
    """
    state = path.stat()
    return _read_directory(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _read_directory(path: Path, *_: int) -> Directory:
    with path.open("rb") as file:
        try:
            return _find_directory(file)
        except StructError as error:
            raise BadZipFile("the directory is cut short") from error


def _find_directory(file: IO[bytes]) -> Directory:
    length = file.seek(0, 2)
    file.seek(max(0, length - _LONGEST_END - _LOCATOR - _LARGE_END.size))
    tail_at = file.tell()
    tail = file.read()
    found = tail.rfind(_END_MAGIC)
    if found < 0:
        raise BadZipFile("the file is not a zip, or not all of one")
    _, size, begin, _ = _END.unpack_from(tail, found)
    large = found - _LOCATOR - _LARGE_END.size
    if large >= 0 and tail.startswith(_LARGE_END_MAGIC, large):
        found = large
        _, size, begin = _LARGE_END.unpack_from(tail, large)
    start = tail_at + found - size
    if start < 0:
        raise BadZipFile("the directory is cut short")
    file.seek(start)
    return Directory(file.read(size), start - begin, start)


def _list_large(extra: bytes) -> list[int]:
    """Return the numbers beyond 32 bits, in their order."""
    at = 0
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if kind == _LARGE_EXTRA:
            whole = extra[at : at + length]
            return [int.from_bytes(whole[n : n + 8], "little") for n in range(0, len(whole), 8)]
        at += length
    return []


def read_members(path: Path, places: Iterable[int]) -> Iterator[Any]:
    """Yield the JSON of the members at these places of the directory.

    Raises:
        DataError: A member is too large, or not JSON.
        DAMAGE: It cannot be unpacked.
    """
    limits, directory = get_limits(), read_directory(path)
    with path.open("rb", buffering=_BUFFER) as file:
        for member in map(directory.read, places):
            where = f"{path}: {member.name}"
            if member.size > limits.record_bytes:
                raise limits.record_too_large(where)
            data = _unpack(file, member)
            limits.check_record(data, where)
            yield parse_json(data, where)


def _unpack(file: IO[bytes], member: Member) -> bytes:
    if member.flags & _ENCRYPTED:
        raise RuntimeError(f"{member.name} is encrypted")
    file.seek(member.offset)
    header = file.read(_LOCAL_HEADER.size)
    if not header.startswith(_MAGIC) or len(header) < _LOCAL_HEADER.size:
        raise BadZipFile(f"no member where {member.name} should be")
    name, extra = _LOCAL_HEADER.unpack(header)
    file.seek(name + extra, SEEK_CUR)
    data = _unpack_data(file.read(member.packed), member)
    if zlib.crc32(data) != member.checksum:
        raise BadZipFile(f"wrong checksum of {member.name}")
    return data


def _unpack_data(packed: bytes, member: Member) -> bytes:
    """Return what is packed, no more of it than the directory says."""
    if member.method == ZIP_STORED:
        return packed
    if member.method == ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max(member.size, 1))
    if member.method != _ZSTD:
        raise NotImplementedError(f"{member.name}: compression method {member.method}")
    return _unpack_frames(packed, member.size)


def _unpack_frames(packed: bytes, size: int) -> bytes:
    """Return what the frames hold, `size` bytes at most, whatever their own headers claim."""
    pieces = []
    while packed and size > 0:
        frame = ZstdDecompressor()
        pieces.append(frame.decompress(packed, size))
        size -= len(pieces[-1])
        packed = frame.unused_data
    return b"".join(pieces)
