"""Reading of replies in HTTP/1.1 from the bytes of a connection, as they come.

The bodies of replies end by their length, in chunks, or with the connection. What a server may send
is bounded: its headers by `_MOST_HEAD`, a body by `most`, packed or unpacked.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

PACKED = "gzip, deflate"
"""What bodies may be packed with."""

_MOST_HEAD = 1 << 16
_MOST_LINE = 1 << 12  # of the size of a chunk, with its extensions
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: .*)?")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
_NEXT, _TRAILERS, _OVER = -1, -2, -3  # in place of a chunk's size: what comes next
_UPGRADED, _FINAL = 101, 200
_WITHOUT_BODY = (204, 304)


class HttpError(ConnectionError):
    """A reply that is no HTTP, or is not whole."""


class TooLong(Exception):  # noqa: N818
    """A body of more bytes than are kept."""


class HttpReply(NamedTuple):
    """A reply; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    may_reuse: bool  # the connection, for the next request


class HttpReader:
    """Reads one reply."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = b""  # that is not read yet
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_kept = False
        self._length: int | None = None  # of the body, where it is known
        self._is_chunked = False
        self._chunk = _NEXT  # bytes that are left of the present chunk, or what comes instead
        self._content = bytearray()

    def feed(self, data: bytes) -> HttpReply | None:
        """Take bytes, and return the reply once it is whole.

        Raises:
            HttpError: They are no reply.
            TooLong: The body is longer than `most`.
        """
        self._data = self._data + data if self._data else data
        if not self._status and not self._read_head():
            return None
        if self._is_chunked:
            return self._finish(may_reuse=not self._data) if self._read_chunks() else None
        self._keep(self._data)
        self._data = b""
        if self._length is None or (more := len(self._content) - self._length) < 0:
            return None
        del self._content[self._length :]
        return self._finish(may_reuse=not more)

    def end(self) -> HttpReply:
        """Return the reply that the end of the connection completes.

        Raises:
            HttpError: It is not whole.
        """
        if not self._status or self._is_chunked or self._length is not None:
            said = "in the middle of a reply" if self._status or self._data else "without a reply"
            raise HttpError(f"the server closed the connection {said}")
        return self._finish(may_reuse=False)

    def _keep(self, piece: bytes) -> None:
        self._content += piece
        if len(self._content) > self._most:
            raise TooLong

    def _finish(self, *, may_reuse: bool) -> HttpReply:
        content = bytes(self._content)
        if (packing := self._headers.get("content-encoding", "identity")) != "identity":
            content = _unpack(content, packing, self._most)
        return HttpReply(self._status, self._headers, content, may_reuse and self._is_kept)

    def _read_head(self) -> bool:
        """Read status and headers, if they have come; say whether they have."""
        while (end := _END_OF_HEAD.search(self._data)) is not None and end.end() <= _MOST_HEAD:
            head = self._data[: end.start()].removesuffix(b"\r").replace(b"\r\n", b"\n")
            first, *lines = head.decode("latin-1").split("\n")
            self._data = self._data[end.end() :]
            status = _STATUS_LINE.fullmatch(first)
            if status is None or int(status[2]) == _UPGRADED:
                raise HttpError(f"what came is no reply in HTTP/1.1: {first[:80]}")
            if int(status[2]) >= _FINAL:
                self._headers = _parse_headers(lines)
                self._frame(int(status[2]), is_new=status[1] == "1")
                return True
        if end is not None or len(self._data) > _MOST_HEAD:
            raise HttpError(f"headers of more than {_MOST_HEAD >> 10} KiB")
        return False

    def _frame(self, status: int, *, is_new: bool) -> None:
        """Find out how the body ends, and whether the connection stays open after it."""
        headers = self._headers
        options = headers.get("connection", "").lower()
        self._is_kept = "close" not in options if is_new else "keep-alive" in options
        self._status = status
        if status in _WITHOUT_BODY:
            self._length = 0
        elif (coding := headers.get("transfer-encoding")) is not None:
            if coding.strip().lower() != "chunked":
                raise HttpError(f"Transfer-Encoding: {coding[:80]}")
            self._is_chunked = True
            self._is_kept = self._is_kept and "content-length" not in headers
        elif (length := headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdecimal()):
                raise HttpError(f"Content-Length: {length[:80]}")
            self._length = int(length) if len(length) <= len(str(self._most)) else self._most + 1
            if self._length > self._most:
                raise TooLong

    def _read_chunks(self) -> bool:
        """Read the chunks that have come; say whether the last of them is among them."""
        at, data = 0, self._data
        while self._chunk != _OVER:
            if self._chunk > 0:
                piece = data[at : at + self._chunk]
                self._keep(piece)
                at += len(piece)
                self._chunk -= len(piece)
            end = data.find(b"\n", at)
            if self._chunk > 0 or end < 0:
                break
            self._chunk = _read_line(data[at:end].removesuffix(b"\r"), self._chunk)
            at = end + 1
        self._data = data[at:]
        if self._chunk <= 0 and len(self._data) > _MOST_LINE:
            raise HttpError("a chunk without a size")
        return self._chunk == _OVER


def _read_line(line: bytes, chunk: int) -> int:
    """Return what comes after a line between chunks: a chunk of that size, or what has a name."""
    if chunk == _TRAILERS:
        return _TRAILERS if line else _OVER
    if chunk == 0:
        if line:
            raise HttpError("a chunk that is longer than it says")
        return _NEXT
    if (size := _CHUNK_SIZE.fullmatch(line)) is None:
        raise HttpError("a chunk without a size")
    return int(size[1], 16) or _TRAILERS


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(f"a header without a name: {line[:80]}")
        name, value = name.lower(), value.strip()
        if (before := headers.get(name)) is not None and before != value:
            value = f"{before}, {value}"
        headers[name] = value
    return headers


def _unpack(content: bytes, packing: str, most: int) -> bytes:
    """Return the body that was packed with gzip or deflate; raise TooLong if it is longer."""
    if (kind := packing.strip().lower()) not in ("gzip", "x-gzip", "deflate"):
        raise HttpError(f"Content-Encoding: {packing[:80]}, and {PACKED} were asked for")
    if not content:
        return content
    is_bare = kind == "deflate" and content[0] & 0xF != zlib.DEFLATED
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)
    try:
        found = unpacking.decompress(content, most + 1)
    except zlib.error as error:
        raise HttpError(f"a body that cannot be unpacked: {error}") from None
    if len(found) > most:
        raise TooLong
    if not unpacking.eof:
        raise HttpError("a packed body that is not whole")
    return found
