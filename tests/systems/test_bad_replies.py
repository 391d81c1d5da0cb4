"""Replies of every bad kind: an error in bounded time, and no stale reply to the next request."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

import pytest

from calipers.systems.calls import Call, Fault, Reply
from calipers.systems.http import MOST_BYTES, Post, open_session, parse_reply
from calipers.systems.pace import RetryingModel

Bad = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

SECONDS = 1.0  # of a call
OK = b"HTTP/1.1 200 OK\r\n"
STALE = b'{"answer": "stale"}'
SMUGGLED = OK + b"Content-Length: %d\r\n\r\n" % len(STALE) + STALE


async def send_forever(writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> None:
    writer.write(head)
    while True:
        writer.write(piece)
        await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    for byte in OK + b"Content-Length: 1000\r\n\r\n" + b" " * 1000:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


async def reply_late(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1.3 * SECONDS)
    writer.write(SMUGGLED)


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Content-Length: 1000\r\n\r\n{")
    writer.transport.abort()


def packed(body: bytes, coding: bytes = b"gzip") -> bytes:
    return OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body)) + body


def body(content: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(content) + content


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BAD: dict[str, Bad] = {
    "nothing": b"",
    "half a status": b"HTTP/1.1 2",
    "no HTTP": b"220 smtp.example.org ESMTP\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + SMUGGLED,
    "1xx without end": lambda w: send_forever(w, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers without end": lambda w: send_forever(w, OK, b"X-Header: value\r\n"),
    "a header without end": lambda w: send_forever(w, OK + b"X: ", b"x" * 1000),
    "a header without a name": OK + b": x\r\n\r\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}" + SMUGGLED,
    "a negative length": OK + b"Content-Length: -2\r\n\r\n{}",
    "a length in hex": OK + b"Content-Length: 0x2\r\n\r\n{}",
    "a length beyond measure": OK + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}",
    "a body cut short": OK + b"Content-Length: 100\r\n\r\n{",
    "a reset": reset,
    "a slow drip": drip,
    "a late reply": reply_late,
    "a body without end": lambda w: send_forever(w, OK + b"\r\n", b" " * (1 << 16)),
    "chunks without end": lambda w: send_forever(w, CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "trailers without end": lambda w: send_forever(w, CHUNKED + b"0\r\n", b"X: y\r\n"),
    "a chunk without a size": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than it says": CHUNKED + b"2\r\n{}{}\r\n0\r\n\r\n",
    "chunks cut short": CHUNKED + b"5\r\n{",
    "two codings": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown packing": packed(b"{}", b"br"),
    "not packed": packed(b"{}"),
    "half packed": packed(gzip.compress(b'{"answer": "x"}')[:-12]),
    "a bomb": packed(gzip.compress(b" " * (4 * MOST_BYTES))),
    "a bomb of zlib": packed(zlib.compress(b" " * (4 * MOST_BYTES)), b"deflate"),
    "a bomb in members": packed(gzip.compress(b" " * (1 << 20)) * 20),
    "a bomb under its older name": packed(gzip.compress(b" " * (4 * MOST_BYTES)), b"x-gzip"),
    "no body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "a redirect": b"HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
    "not JSON": body(b"<html>"),
    "half a JSON": body(b'{"answer": "x'),
    "deep JSON": body(b"[" * 100_000),
    "a JSON of no fields": body(b"[1, 2]"),
    "not even UTF-8": body(b'{"answer": "\xff\xfe"}'),
    "two replies": body(b"[]") + SMUGGLED,
    "a reply after an error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
}


class Server:
    """Answers each request with its own number; a request that says so gets the bad reply."""

    def __init__(self, bad: Bad) -> None:
        self._bad = bad

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].partition("\r")[0])
                asked = json.loads(await reader.readexactly(length))
                if asked["bad"]:
                    if isinstance(self._bad, bytes):
                        writer.write(self._bad)
                        await writer.drain()
                        await asyncio.sleep(0.05)
                    else:
                        await self._bad(writer)
                    break
                writer.write(body(json.dumps({"answer": asked["number"]}).encode()))
                await writer.drain()
        writer.close()


async def ask_around(bad: Bad) -> tuple[list[Reply | Fault], float]:
    """Return what comes of good requests with a bad one among them, and how long it takes."""
    server = await asyncio.start_server(Server(bad).serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with open_session() as session:
        post = Post(session, f"http://127.0.0.1:{port}/", {})

        async def answer(call: Call) -> Reply:
            return parse_reply((await post(json.dumps(call.record).encode())).content)

        asking = RetryingModel(answer, concurrency=1, retries=1, timeout_seconds=SECONDS)
        found: list[Reply | Fault] = []
        began = monotonic()
        for number in range(6):
            record = {"number": str(number), "bad": number == 2}
            try:
                found.append(await asking(Call(record=record, prompt="")))
            except Fault as fault:
                found.append(fault)
        took = monotonic() - began
    server.close()
    return found, took


@pytest.mark.parametrize(
    "name",
    [
        name if isinstance(bad, bytes) else pytest.param(name, marks=pytest.mark.long)
        for name, bad in BAD.items()
    ],
)
def test_a_bad_reply_is_an_error_in_time_and_the_next_one_is_its_own(name: str) -> None:
    found, took = asyncio.run(asyncio.wait_for(ask_around(BAD[name]), 60))
    assert took < 20 * SECONDS
    assert isinstance(found[2], Fault), found[2]
    for number, outcome in enumerate(found):
        if number != 2:
            assert isinstance(outcome, Reply), outcome
            assert outcome.fields == {"answer": str(number)}
