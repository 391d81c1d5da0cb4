"""Replies in HTTP/1.1: however they are cut, and whatever a server makes up."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.systems.http_reply import HttpError, HttpReader, HttpReply, TooLong

MOST = 1000
HEAD = b"HTTP/1.1 200 OK\r\n"
OLD = b"HTTP/1.0 200 OK\r\n"


def read(data: bytes, *, cuts: tuple[int, ...] = (), ends: bool = False) -> HttpReply | None:
    """Read what comes in pieces; `ends` says that the connection ends after it."""
    reader, reply = HttpReader(MOST), None
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        if reply is None:
            reply = reader.feed(data[start:end])
    return reader.end() if ends and reply is None else reply


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "length": (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello", True),
    "no body": (HEAD + b"content-length:0\r\n\r\n", b"", True),
    "line ends without CR": (b"HTTP/1.1 200\nContent-Length: 5\n\nhello", b"hello", True),
    "after a 100": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n"
        + HEAD
        + b"Content-Length: 2\r\n\r\nhi",
        b"hi",
        True,
    ),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2;odd=yes\r\nlo\r\n0\r\n\r\n", b"hello", True),
    "chunks and trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nSum: 1\r\n\r\n", b"hello", True),
    "a chunk with line ends": (CHUNKED + b"A\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n0\r\n\r\n", True),
    "chunks beside a length": (
        HEAD + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"x",
        False,
    ),
    "said to close": (HEAD + b"Connection: Close\r\nContent-Length: 1\r\n\r\nx", b"x", False),
    "of HTTP/1.0": (OLD + b"Content-Length: 1\r\n\r\nx", b"x", False),
    "kept in HTTP/1.0": (OLD + b"Connection: keep-alive\r\nContent-Length: 1\r\n\r\nx", b"x", True),
    "the same length twice": (HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", b"x", True),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@given(cuts=st.lists(st.integers(0, 300), max_size=6))
def test_a_reply_is_the_same_however_it_is_cut(name: str, cuts: list[int]) -> None:
    data, content, may_reuse = WHOLE[name]
    for places in (tuple(cuts), tuple(range(len(data)))):
        reply = read(data, cuts=places)
        assert reply is not None
        assert (reply.status, reply.content, reply.may_reuse) == (200, content, may_reuse)


@given(content=st.binary(max_size=MOST), sizes=st.lists(st.integers(1, 400), min_size=1))
def test_chunks_of_any_size(content: bytes, sizes: list[int]) -> None:
    data, at = CHUNKED, 0
    for size in sizes * (len(content) + 1):
        if at >= len(content):
            break
        piece = content[at : at + size]
        data += b"%x\r\n%b\r\n" % (len(piece), piece)
        at += size
    reply = read(data + b"0\r\n\r\n", cuts=tuple(sizes))
    assert reply is not None
    assert reply.content == content


def test_a_reply_without_length_ends_with_the_connection() -> None:
    assert read(HEAD + b"\r\nhello") is None
    reply = read(HEAD + b"\r\nhello", ends=True)
    assert reply is not None
    assert (reply.content, reply.may_reuse) == (b"hello", False)


@pytest.mark.parametrize("status", [204, 304])
def test_some_replies_have_no_body(status: int) -> None:
    reply = read(b"HTTP/1.1 %d\r\nContent-Length: 7\r\n\r\n" % status)
    assert reply is not None
    assert (reply.status, reply.content) == (status, b"")


def test_what_nobody_asked_for_closes_the_connection() -> None:
    for body in (b"Content-Length: 2\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        reply = read(HEAD + body + b"HTTP/1.1 200 OK\r\n")
        assert reply is not None
        assert not reply.may_reuse
    reply = read(HEAD + b"Content-Length: 2\r\n\r\nhi, you")
    assert reply is not None
    assert reply.content == b"hi"


def test_headers_are_found_in_lower_case_and_joined() -> None:
    reply = read(HEAD + b"Retry-AFTER:  7 \r\nX: a\r\nx: b\r\nContent-Length: 0\r\n\r\n")
    assert reply is not None
    assert (reply.headers["retry-after"], reply.headers["x"]) == ("7", "a, b")


BARE = zlib.compressobj(wbits=-15)
PACKED = {
    "gzip": gzip.compress(b"hello"),
    "deflate": zlib.compress(b"hello"),
    "Deflate": BARE.compress(b"hello") + BARE.flush(),
    "identity": b"hello",
}


@pytest.mark.parametrize("packing", PACKED)
def test_packed_bodies(packing: str) -> None:
    head = HEAD + f"Content-Encoding: {packing}\r\n\r\n".encode()
    reply = read(head + PACKED[packing], ends=True)
    assert reply is not None
    assert reply.content == b"hello"


TOO_LONG = {
    "length": HEAD + b"Content-Length: 1001\r\n\r\n",
    "length beyond any number": HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "chunk": CHUNKED + b"3e9\r\n" + b"x" * 1001,
    "chunks": CHUNKED + b"2\r\nxx\r\n" * 501,
    "until the end": HEAD + b"\r\n" + b"x" * 1001,
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_bodies_are_bounded(name: str) -> None:
    with pytest.raises(TooLong):
        read(TOO_LONG[name])


def test_unpacked_bodies_are_bounded() -> None:
    bomb = zlib.compress(bytes(200_000))
    assert len(bomb) < MOST
    with pytest.raises(TooLong):
        read(HEAD + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)


BAD = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a line without a name": HEAD + b"nonsense\r\n\r\n",
    "a folded line": HEAD + b"X: a\r\n b: c\r\n\r\n",
    "space before the colon": HEAD + b"Content-Length : 5\r\n\r\n",
    "negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "no number": HEAD + b"Content-Length: 0x5\r\n\r\n",
    "another digit": HEAD + "Content-Length: ²\r\n\r\n".encode("latin-1"),
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "a line end of another kind": HEAD + b"X: a\x85Content-Length: 5\r\nY\r\n\r\n",
    "endless headers": HEAD + b"X: y\r\n" * 20_000,
    "large headers": HEAD + b"X: y\r\n" * 20_000 + b"\r\n",
    "no size": CHUNKED + b"\r\n\r\n",
    "negative size": CHUNKED + b"-1\r\n",
    "size with a prefix": CHUNKED + b"0x5\r\nhello\r\n",
    "size beyond any": CHUNKED + b"f" * 16 + b"\r\n",
    "endless size": CHUNKED + b"0" * 5000,
    "chunk that goes on": CHUNKED + b"2\r\nhello\r\n",
    "unknown packing": HEAD + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
    "not packed": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "half packed": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + gzip.compress(b"hello")[:20],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_reply_is_refused(name: str) -> None:
    with pytest.raises(HttpError):
        read(BAD[name])


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200", HEAD + b"Content-Length: 5\r\n\r\nhell", CHUNKED + b"5\r\nhello"]
)
def test_a_reply_that_is_cut_off_is_none(data: bytes) -> None:
    with pytest.raises(HttpError, match="closed the connection"):
        read(data, ends=True)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_reply_or_refused(data: bytes) -> None:
    for start in (b"", HEAD, CHUNKED):
        with suppress(HttpError, TooLong):
            read(start + data, cuts=(7, 50), ends=True)
