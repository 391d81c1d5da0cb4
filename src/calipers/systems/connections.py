"""Connections that are kept and reused to post requests, in HTTP/1.1 and nothing else.

A request over these takes a third of the processor's time that it takes over aiohttp's client,
which does much more: see docs/decisions/0016. What is not here (proxies, redirects, cookies) is
done by aiohttp, or by nobody.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from functools import cached_property
from time import monotonic
from typing import Any, cast

from calipers.systems.addresses import Address
from calipers.systems.http_reply import PACKED, HttpError, HttpReader, HttpReply, TooLong

_KEPT = 60.0  # seconds that a connection may be idle and is still used
_NEXT_ADDRESS = 0.25  # seconds until a further address of a host is tried beside the first
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Connections:
    """The connections to all servers, as many as there are requests at a time."""

    def __init__(self, most: int) -> None:
        self._most = most  # bytes of a body
        self._servers: dict[tuple[str, str, int], Server] = {}

    def open_server(self, address: Address) -> Server:
        """Return the server at an address, whose connections all who post to it share."""
        origin = (address.scheme, address.host, address.port)
        return self._servers.setdefault(origin, Server(*origin, self._most))

    async def close(self) -> None:
        """Close all connections, also those that wait for a reply."""
        for server in self._servers.values():
            server.close()
        await asyncio.sleep(0)  # so that they are closed when this returns


class Server:
    """A server, and the connections to it."""

    def __init__(self, scheme: str, host: str, port: int, most: int) -> None:
        self._host = host
        self._port = port
        self._is_tls = scheme == "https"
        self._most = most
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    async def send(self, request: bytes) -> HttpReply:
        """Send a request, and return its reply.

        Raises:
            OSError: The server cannot be reached, or what comes back is no reply.
            TooLong: The body is longer than is kept.
        """
        connection = self._find_idle() or await self._connect()
        reply = await connection.send(request)
        if reply.may_reuse and connection.is_free:
            connection.since = monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._open]:
            connection.close()

    def _find_idle(self) -> _Connection | None:
        """Return the connection that was used last; those that nobody used for long are closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_free and monotonic() - connection.since < _KEPT:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"ssl": self._tls} if self._is_tls else {}
        if isinstance(loop, asyncio.BaseEventLoop):  # a program may have set another one
            options |= {"happy_eyeballs_delay": _NEXT_ADDRESS, "interleave": 1}
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(self._most, self._open), self._host, self._port, **options
            )
        except TimeoutError:
            raise
        except OSError as error:
            said = f"cannot connect to {self._host}:{self._port}: {error}"
            raise ConnectionError(said) from error
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()


class _Connection(asyncio.Protocol):
    """One connection: a request, its reply, then the next."""

    def __init__(self, most: int, open_ones: set[_Connection]) -> None:
        self.since = 0.0  # when it was last used
        self._most = most
        self._open_ones = open_ones
        self._transport: asyncio.Transport | None = None
        self._reader: HttpReader | None = None
        self._waiter: asyncio.Future[HttpReply] | None = None

    @property
    def is_free(self) -> bool:
        """Say whether it is open, and nothing is under way."""
        transport = self._transport
        return (
            transport is not None
            and self._waiter is None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    async def send(self, request: bytes) -> HttpReply:
        """Send a request, and return its reply; without one, the connection is closed."""
        if self._transport is None:
            raise HttpError("the server closed the connection without a reply")
        self._reader = HttpReader(self._most)
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            reply = await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None
        return reply

    def close(self) -> None:
        """Close it at once; who waits for a reply gets none."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the connection was closed"))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open_ones.add(self)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.close()  # nobody has asked for it
            return
        assert self._reader is not None
        try:
            reply = self._reader.feed(data)
        except (HttpError, TooLong) as problem:
            waiter.set_exception(problem)
        else:
            if reply is not None:
                waiter.set_result(reply)

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        self._end(exc)
        self._transport = None

    def _end(self, error: Exception | None = None) -> None:
        """Complete a reply that ends with the connection; any other is lost."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        assert self._reader is not None
        try:
            reply = self._reader.end()
        except (HttpError, TooLong) as problem:
            waiter.set_exception(error or problem)
        else:
            waiter.set_result(reply) if error is None else waiter.set_exception(error)


def make_head(address: Address, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request to post JSON, up to the length of its body.

    Raises:
        ValueError: A header has a line end in it.
    """
    first = f"POST {address.target} HTTP/1.1"
    ours = {"Host": address.named, "Accept": "*/*", "Accept-Encoding": PACKED}
    given = {name.lower(): (name, value) for name, value in {**ours, **headers}.items()}
    lines = [first, *(f"{name}: {value}" for name, value in given.values()), "Content-Length: "]
    if any(_CONTROL.search(line) for line in lines):
        raise ValueError("a header with a line end or another control character in it")
    return "\r\n".join(lines).encode()
