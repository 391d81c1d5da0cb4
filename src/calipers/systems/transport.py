"""aiohttp beneath the SDKs' own client: its connection pool is about ten times as fast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp
import httpx2

from calipers.systems.posting import find_proxy
from calipers.systems.wire import MOST_BYTES, make_length_fault

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_KINDS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.ClientError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
)
_PACKED = "gzip, deflate"
_UNPACKED = (b"content-encoding", b"content-length")  # aiohttp has unpacked the body


@contextmanager
def _as_httpx(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        kind = next(theirs for ours, theirs in _KINDS if isinstance(error, ours))
        raise kind(str(error) or type(error).__name__, request=request) from error


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends the SDKs' requests through a session of aiohttp, which somebody else closes."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the response is read as the caller wants it."""
        url = str(request.url)
        headers = dict(request.headers)  # one line each: some servers refuse two of a name
        headers["accept-encoding"] = _PACKED  # the SDKs' client may know more of them
        with _as_httpx(request):
            response = await self._session.request(
                request.method,
                url,
                headers=headers,
                data=await request.aread() or None,
                proxy=find_proxy(url),
                allow_redirects=False,
            )
        return httpx2.Response(
            status_code=response.status,
            headers=[each for each in response.raw_headers if each[0].lower() not in _UNPACKED],
            stream=_Body(response, request),
            request=request,
        )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        with _as_httpx(self._request):
            async for piece in self._response.content.iter_any():
                size += len(piece)
                if size > MOST_BYTES:
                    raise make_length_fault()
                yield piece

    async def aclose(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()  # nobody reads the rest
