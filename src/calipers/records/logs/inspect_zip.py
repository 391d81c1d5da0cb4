"""The members of an Inspect log that is a zip, read one by one; its directory is read once.

Python's own reader takes longer to open a member than to unpack it, and knows no zstd before 3.14.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import zstandard

from calipers.records.limits import get_limits
from calipers.records.logs.parts import parse_json

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    NotImplementedError,  # a way of packing that no one knows
    RuntimeError,  # encrypted
    EOFError,
    ValueError,  # a place before the file's start
)
_ENCRYPTED = 1  # the bit of a member's flags
_LOCAL_HEADER = 30  # bytes, before the member's name
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


class Directory(NamedTuple):
    """What a zip holds; of a member that was written twice the last counts."""

    members: dict[str, Member]
    expanded: int


def read_directory(path: Path) -> Directory:
    """Return what the zip holds; read once as long as the file stays as it is."""
    state = path.stat()
    return _read_directory(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _read_directory(path: Path, *_: int) -> Directory:
    members: dict[str, Member] = {}
    expanded = 0
    with zipfile.ZipFile(path) as log:
        for each in log.infolist():
            expanded += each.file_size
            members[each.filename] = Member(
                each.filename,
                each.header_offset,
                each.compress_size,
                each.file_size,
                each.CRC,
                each.compress_type,
                each.flag_bits,
            )
    return Directory(members, expanded)


def read_members(path: Path, members: list[Member]) -> Iterator[Any]:
    """Yield the JSON of members, in their order.

    Raises:
        DataError: A member is too large, or not JSON.
        DAMAGE: It cannot be unpacked.
    """
    limits = get_limits()
    unpacker = zstandard.ZstdDecompressor()
    with path.open("rb") as file:
        for member in members:
            where = f"{path}: {member.name}"
            if member.size > limits.record_bytes:
                raise limits.record_too_large(where)
            data = _unpack(file, member, unpacker)
            limits.check_record(data, where)
            yield parse_json(data, where)


def _unpack(file: IO[bytes], member: Member, unpacker: zstandard.ZstdDecompressor) -> bytes:
    if member.flags & _ENCRYPTED:
        raise RuntimeError(f"{member.name} is encrypted")
    file.seek(member.offset)
    header = file.read(_LOCAL_HEADER)
    if not header.startswith(_MAGIC) or len(header) < _LOCAL_HEADER:
        raise zipfile.BadZipFile(f"no member where {member.name} should be")
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    packed = file.read(names + member.packed)[names:]
    data = _unpack_data(packed, member, unpacker)
    if zlib.crc32(data) != member.checksum:
        raise zipfile.BadZipFile(f"wrong checksum of {member.name}")
    return data


def _unpack_data(packed: bytes, member: Member, unpacker: zstandard.ZstdDecompressor) -> bytes:
    """Return what is packed, no more of it than the directory says."""
    if member.method == zipfile.ZIP_STORED:
        return packed
    if member.method == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max(member.size, 1))
    if member.method != _ZSTD:
        raise NotImplementedError(f"{member.name}: compression method {member.method}")
    # In one go only where its header claims no more than the directory: so much is set aside.
    if zstandard.frame_content_size(packed) <= member.size:
        data = unpacker.decompress(packed, max_output_size=max(member.size, 1))
        if len(data) == member.size:
            return data
    with unpacker.stream_reader(packed, read_across_frames=True) as unpacked:
        return unpacked.read(member.size)
