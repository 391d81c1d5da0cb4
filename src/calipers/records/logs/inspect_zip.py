"""The members of an Inspect log that is a zip, read one by one.

Python's own reader takes longer to open a member than to unpack it, and knows no zstd before 3.14.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from os import SEEK_CUR
from pathlib import Path
from struct import Struct
from typing import IO, Any

from calipers.records.limits import get_limits
from calipers.records.logs.parts import parse_json
from calipers.records.logs.zip_directory import Member, read_directory
from calipers.support.zstd import ZstdDecompressor, ZstdError

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ZstdError,
    NotImplementedError,  # a way of packing that no one knows
    RuntimeError,  # encrypted
    EOFError,
    ValueError,  # a place before the file's start
)
_ENCRYPTED = 1  # the bit of a member's flags
_LOCAL_HEADER = Struct("<26x2H")  # before the data: the bytes of a name, and of extra fields
_BUFFER = 1 << 20
_ZSTD = 93  # the method that is zstd
_MAGIC = b"PK\x03\x04"


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
        raise zipfile.BadZipFile(f"no member where {member.name} should be")
    name, extra = _LOCAL_HEADER.unpack(header)
    file.seek(name + extra, SEEK_CUR)
    data = _unpack_data(file.read(member.packed), member)
    if zlib.crc32(data) != member.checksum:
        raise zipfile.BadZipFile(f"wrong checksum of {member.name}")
    return data


def _unpack_data(packed: bytes, member: Member) -> bytes:
    """Return what is packed, no more of it than the directory says."""
    if member.method == zipfile.ZIP_STORED:
        return packed
    if member.method == zipfile.ZIP_DEFLATED:
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
