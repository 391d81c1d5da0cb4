"""Requests to servers: over connections of our own, or by aiohttp where there is a proxy."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from calipers.support.errors import MissingExtraError
from calipers.systems.addresses import parse_address
from calipers.systems.calls import Call, Reply
from calipers.systems.connections import Connections, make_head
from calipers.systems.http_reply import TooLong
from calipers.systems.wire import (
    MOST_BYTES,
    as_json,
    make_connection_fault,
    make_length_fault,
    make_status_fault,
    parse_reply,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_OK = 200
_ASK_SYSTEM = ("darwin", "win32")  # where settings of the system may name a proxy
_NAMES_PROXY = re.compile(r".*_proxy", re.IGNORECASE).fullmatch


class Session:
    """What requests go over: our own connections, and aiohttp's for what those cannot do."""

    def __init__(self) -> None:
        self.connections = Connections(MOST_BYTES)

    @cached_property
    def client(self) -> ClientSession:
        """The client of aiohttp, which takes a tenth of a second to load."""
        import aiohttp  # noqa: PLC0415 (an extra)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None),  # the run bounds each call
        )

    async def close(self) -> None:
        """Close all connections."""
        try:
            await self.connections.close()
        finally:
            if "client" in self.__dict__:
                await self.client.close()


@asynccontextmanager
async def open_session() -> AsyncIterator[Session]:
    """Open connections that are kept and reused; their number is limited elsewhere."""
    if find_spec("aiohttp") is None:
        raise MissingExtraError("models and servers need aiohttp", extra="run")
    session = Session()
    try:
        yield session
    finally:
        await session.close()


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, or None."""
    if sys.platform not in _ASK_SYSTEM and not any(map(_NAMES_PROXY, os.environ)):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 (only where one posts)

    parts = urlsplit(url)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


class Post:
    """Posts JSON to one URL and gives the body back, or a fault."""

    def __init__(self, session: Session, url: str, headers: Mapping[str, str]) -> None:
        self._session = session
        self._url = url
        self._address = parse_address(url)
        self._headers = {"Content-Type": "application/json", "User-Agent": "calipers", **headers}
        self._head = make_head(self._address, self._headers)
        self._proxy = find_proxy(url)
        if self._proxy is not None:
            _ = session.client  # loaded now, and not within the time of the first call
        self._server = session.connections.open_server(self._address)

    async def __call__(self, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the body of a reply with status 200."""
        if self._proxy is not None:
            return await self._post_by_proxy(body, headers)
        head = make_head(self._address, {**self._headers, **headers}) if headers else self._head
        try:
            reply = await self._server.send(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        except TooLong:
            raise make_length_fault() from None
        except OSError as error:
            raise make_connection_fault(error) from error
        return _check_status(reply.status, reply.headers, reply.content)

    async def _post_by_proxy(self, body: bytes, headers: Mapping[str, str] | None) -> bytes:
        from aiohttp import ClientError  # noqa: PLC0415 (an extra; there, as a session is)

        try:
            async with self._session.client.post(
                self._url,
                data=body,
                headers={**self._headers, **(headers or {})},
                proxy=self._proxy,
                allow_redirects=False,  # a key goes to nobody else
            ) as response:
                return _check_status(response.status, response.headers, await _read(response))
        except (OSError, ClientError) as error:
            raise make_connection_fault(error) from error


class Endpoint:
    """Any server as a system: a record is posted as JSON, record fields come back as JSON."""

    def __init__(self, session: Session, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._post = Post(session, url, headers)

    async def __call__(self, call: Call) -> Reply:
        """Return the fields, or the text, that the server gives."""
        return parse_reply(await self._post(as_json(call.record)))


def _check_status(status: int, headers: Mapping[str, str], content: bytes) -> bytes:
    if status != _OK:
        raise make_status_fault(status, headers, content)
    return content


async def _read(response: ClientResponse) -> bytes:
    pieces, size = [], 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > MOST_BYTES:
            raise make_length_fault()
        pieces.append(piece)
    return b"".join(pieces)
