"""HTTP of batches: small JSON bodies, and results that are read line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from calipers.systems.calls import Fault
from calipers.systems.posting import Post, Session, find_proxy
from calipers.systems.wire import (
    MOST_BYTES,
    as_json,
    make_connection_fault,
    make_length_fault,
    make_status_fault,
    parse_json,
)

if TYPE_CHECKING:
    from aiohttp import FormData

_OK = 200
_NOT_FOUND = 404
_CHUNK = 1 << 16
_PAGE = 100  # objects of a list at a time


class BatchLost(Fault):
    """A batch that was refused or does not exist: its calls have to be sent again."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_request", message)


class Requests:
    """Requests to one provider, with its headers."""

    def __init__(self, session: Session, base_url: str, headers: Mapping[str, str]) -> None:
        self._session = session
        self._base = base_url.rstrip("/")
        self._headers = dict(headers)
        self._proxy = find_proxy(self._base)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object that comes back for a JSON body."""
        post = Post(self._session, f"{self._base}{path}", self._headers)
        return _as_object(parse_json(await post(as_json(body))))

    async def upload(self, path: str, form: FormData) -> dict[str, Any]:
        """Return the object that comes back for an uploaded file."""
        return await self.get(path, "POST", data=form)

    async def get(self, path: str, method: str = "GET", **more: Any) -> dict[str, Any]:
        """Return the object at a path."""
        content = b"".join([piece async for piece in self._stream(method, path, **more)])
        return _as_object(parse_json(content))

    async def read_list(self, path: str, after: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a list, page by page; `after` is what the next page is asked by.

        Raises:
            Fault: The provider does not answer, or has no such list.
        """
        query = f"?limit={_PAGE}"
        while True:
            page = await self.get(f"{path}{query}")
            found = [each for each in page.get("data") or () if isinstance(each, dict)]
            for each in found:
                yield each
            if not found or page.get("has_more") is not True:
                return
            query = f"?limit={_PAGE}&{after}={found[-1].get('id')}"

    async def read_lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a file of JSON lines, which may be larger than memory."""
        rest = b""
        async for piece in self._stream("GET", path):
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > MOST_BYTES:
                raise make_length_fault()
            for line in lines:
                if line.strip():
                    yield _as_object(parse_json(line))
        if rest.strip():
            yield _as_object(parse_json(rest))

    async def _stream(self, method: str, path: str, **more: Any) -> AsyncIterator[bytes]:
        from aiohttp import ClientError  # noqa: PLC0415 (an extra; there, as a session is)

        try:
            async with self._session.client.request(
                method,
                f"{self._base}{path}",
                headers=self._headers,
                proxy=self._proxy,
                allow_redirects=False,  # a key goes to nobody else
                **more,
            ) as response:
                if response.status != _OK:
                    content = await response.content.read(_CHUNK)
                    if response.status == _NOT_FOUND and method == "GET":
                        raise BatchLost(f"404: {path} does not exist at the provider")
                    raise make_status_fault(response.status, response.headers, content)
                async for piece in response.content.iter_chunked(_CHUNK):
                    yield piece
        except (OSError, ClientError) as error:
            raise make_connection_fault(error) from error


def write_lines(lines: list[Mapping[str, Any]]) -> bytes:
    """Return objects as JSON lines."""
    return b"".join(json.dumps(line, default=str).encode() + b"\n" for line in lines)


def read_id(batch: Mapping[str, Any]) -> str:
    """Return the name of a batch, or raise a Fault."""
    name = batch.get("id")
    if not isinstance(name, str) or not name:
        raise Fault("bad_response", "the batch has no id", again=True)
    return name


def _as_object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
