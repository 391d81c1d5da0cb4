"""HTTP to models and servers, by aiohttp: bounded bodies, no redirects, the environment's proxy.

Every fault of HTTP has its kind: `make_status_fault` decides what a 429 or a 500 means. `Post`
sends one JSON body to one URL, `Endpoint` is a server as a system, and `ApiClient` speaks to the
batch API of a provider: small JSON bodies, and results that are read line by line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.util import find_spec
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from zlib import MAX_WBITS, decompressobj
from zlib import error as zlib_error

from calipers.support.errors import MissingExtraError, UsageError
from calipers.systems.calls import Call, Fault, Kind, Reply, describe_error, make_reply

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MOST_BYTES = 16 << 20
"""Of a reply, or of what a command writes."""

_REJECTED_KEY = (401, 403)
_TOO_MANY = 429
_SERVER = 500
_HELD = 1 << 16  # bytes of a body that a message is made of, before it is masked and cut
_SHOWN = 300  # characters of a provider's message
_START = 80  # characters of what is not JSON
_FILTERS = ("content_filter", "content_policy", "ResponsibleAI")
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_SPENT = ("insufficient_quota", "billing")


def encode_json(value: Any) -> bytes:
    """Return JSON in UTF-8; unpaired surrogates, which it cannot hold, are replaced."""
    return _encode(value).encode("utf-8", "replace")


def parse_reply(content: bytes, *, again: bool = True) -> Reply:
    """Return the reply in a JSON body: record fields, or a text."""
    return make_reply(parse_body(content, again=again))


def parse_body(content: bytes, *, again: bool = True) -> Any:
    """Return the JSON in a body; raise a Fault, with `again` if another attempt may help."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        text = content[:_HELD].decode(errors="replace")
        problem = f"not JSON: {text}" if text.strip() else "not JSON, but nothing at all"
        raise Fault("bad_response", problem, again=again, most=_START) from error


def make_length_fault() -> Fault:
    """Return the fault for a body too large to keep in memory."""
    return Fault("bad_response", f"a body of more than {MOST_BYTES >> 20} MiB")


def make_connection_fault(error: BaseException) -> Fault:
    """Return the fault for a connection that was refused, dropped or cut short."""
    kind: Kind = "timeout" if isinstance(error, TimeoutError) else "connection"
    return Fault(kind, describe_error(error), again=True, outage=True)


def make_status_fault(status: int, headers: Mapping[str, str], content: bytes | object) -> Fault:
    """Return the fault for a status other than 200, and whether to retry."""
    code, message = _read_error(content)
    fault = partial(Fault, message=f"{status} {message}".strip(), most=_SHOWN)
    if any(word in code for word in _FILTERS):
        return fault("content_filter")
    wait = read_retry_after(headers)
    if status == _TOO_MANY:
        spent = any(word in code for word in _SPENT)
        return fault("rate_limit", again=not spent, outage=spent, retry_after=wait)
    if status >= _SERVER:
        return fault("server", again=True, outage=True, retry_after=wait)
    if status < _SERVER - 100:
        return fault("bad_response")
    return fault("bad_request", outage=status in _REJECTED_KEY)


def _read_error(content: bytes | object) -> tuple[str, str]:
    """Return the code and the message of an error, wherever providers put them."""
    body = content
    if isinstance(content, bytes):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = content[:_HELD].decode(errors="replace")
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        code = f"{error.get('code', '')} {error.get('type', '')}"
        return code, str(error.get("message") or error.get("detail") or error)
    return "", str(error or "")


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait, from a number or a date."""
    given = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(KeyError, ValueError):
            seconds = float(given[name]) / unit
            if isfinite(seconds):
                return max(0.0, seconds)
    with contextlib.suppress(KeyError, ValueError, TypeError, OverflowError):
        then = parsedate_to_datetime(given["retry-after"])
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - datetime.now(tz=UTC)).total_seconds())
    return None


_OK = 200
_OLD_GZIP = "x-gzip"  # means gzip (RFC 9110, 8.4.1.3)
_GZIP_WINDOW = 16 + MAX_WBITS
_KEPT = 60.0  # seconds that a connection may be idle and is still used
_SCHEMES = ("http", "https")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_URL_EXAMPLE = "for example http://localhost:8000/v1"


@asynccontextmanager
async def open_session() -> AsyncIterator[ClientSession]:
    """Open connections that are kept and reused; their number is limited elsewhere."""
    if find_spec("aiohttp") is None:
        raise MissingExtraError("models and servers need aiohttp", extra="run")
    import aiohttp  # noqa: PLC0415 (an extra)

    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT)
    timeout = aiohttp.ClientTimeout(total=None)  # the run bounds each call
    headers = {"User-Agent": "calipers", "Accept-Encoding": "gzip, deflate"}
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_start.append(_begin_connecting)
    tracing.on_connection_create_end.append(_end_connecting)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[tracing],
    ) as session:
        yield session


@dataclass
class _Connecting:
    """The seconds that a request waits for a connection to be opened."""

    began: float = 0.0
    seconds: float = 0.0


async def _begin_connecting(_: Any, context: Any, __: Any) -> None:
    if isinstance(connecting := context.trace_request_ctx, _Connecting):
        connecting.began = perf_counter()


async def _end_connecting(_: Any, context: Any, __: Any) -> None:
    if isinstance(connecting := context.trace_request_ctx, _Connecting):
        connecting.seconds += perf_counter() - connecting.began


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, or None."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 (only where one posts)

    parts = urlsplit(url)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def check_url(url: str) -> None:
    """Raise UsageError if a URL is not the address of a server."""
    from yarl import URL  # noqa: PLC0415 (comes with aiohttp)

    try:
        given = URL(url)
        urlsplit(url).port  # noqa: B018 (raises ValueError where it is none)
        host = given.raw_host
    except ValueError as error:  # of idna, too
        raise UsageError(
            f"{url}: not the address of a server: {error}", fix=_URL_EXAMPLE
        ) from error
    if not host or " " in host or given.scheme not in _SCHEMES:
        raise UsageError(f"{url}: it names no server", fix=_URL_EXAMPLE)


class Posted(NamedTuple):
    """The body of a reply, and how long it took without the time to connect."""

    content: bytes
    seconds: float


class Post:
    """Posts JSON to one URL and gives the body back, or a fault."""

    def __init__(self, session: ClientSession, url: str, headers: Mapping[str, str]) -> None:
        check_url(url)
        self._session = session
        self._url = url
        self._headers = _check_headers(url, {"Content-Type": "application/json", **headers})
        self._proxy = find_proxy(url)

    async def __call__(self, body: bytes, headers: Mapping[str, str] | None = None) -> Posted:
        """Return the body of a reply with status 200."""
        from aiohttp import ClientError  # noqa: PLC0415 (an extra; there, as a session is)

        given = self._headers
        if headers:
            replaced = {name.lower() for name in headers}
            kept = {name: value for name, value in given.items() if name.lower() not in replaced}
            given = _check_headers(self._url, {**kept, **headers})
        connecting, began = _Connecting(), perf_counter()
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=given,
                proxy=self._proxy,
                allow_redirects=False,  # a key goes to nobody else
                trace_request_ctx=connecting,
            ) as response:
                content = await _read_body(response)
                seconds = perf_counter() - began - connecting.seconds
        except (OSError, ClientError) as error:
            raise make_connection_fault(error) from error
        if response.status != _OK:
            raise make_status_fault(response.status, response.headers, content)
        return Posted(content, seconds)


class Endpoint:
    """Any server as a system: a record is posted as JSON, record fields come back as JSON."""

    def __init__(self, session: ClientSession, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._post = Post(session, url, headers)

    async def __call__(self, call: Call) -> Reply:
        """Return the fields, or the text, that the server gives."""
        posted = await self._post(encode_json(call.record))
        return replace(parse_reply(posted.content), seconds=posted.seconds)


def _check_headers(url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    if any(_CONTROL.search(f"{name}: {value}") for name, value in headers.items()):
        raise UsageError(
            f"{urlsplit(url).netloc}: a header of the request would have a line end in it",
            fix="check the key in the environment, and extra_headers",
        )
    return headers


async def iterate_body(response: ClientResponse) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, unpacked: aiohttp knows gzip, but not by its older name."""
    from aiohttp import ClientPayloadError  # noqa: PLC0415 (an extra; there, as a response is)

    packing = response.headers.get("Content-Encoding", "").strip().lower()
    if packing != _OLD_GZIP:
        async for piece in response.content.iter_any():
            yield piece
        return
    unpacker = decompressobj(_GZIP_WINDOW)
    try:
        async for piece in response.content.iter_any():
            rest = piece
            while rest:
                if unpacker.eof:  # a body may have several members
                    unpacker = decompressobj(_GZIP_WINDOW)
                yield unpacker.decompress(rest, _CHUNK)
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
    except zlib_error as error:
        raise ClientPayloadError(f"not packed as {_OLD_GZIP}: {error}") from error
    if not unpacker.eof:
        raise ClientPayloadError(f"{_OLD_GZIP} cut short")


async def _read_body(response: ClientResponse) -> bytes:
    content = bytearray()
    async for piece in iterate_body(response):
        content += piece
        if len(content) > MOST_BYTES:
            content.clear()  # a traceback may hold it for long
            raise make_length_fault()
    return bytes(content)


_CHUNK = 1 << 16
_PAGE = 100  # objects of a list at a time
_MOST_PAGES = 1000
_LIMIT = 60.0  # seconds of a request with a small reply, and between two pieces of a large one
_LONGEST = 3600.0  # seconds to read a file of results
_SLOWEST = 1 << 16  # bytes of an upload in a second


class ApiClient:
    """Requests to one provider, with its headers; each is bounded in time and size."""

    def __init__(
        self, session: ClientSession, base_url: str, headers: Mapping[str, str], seconds: float
    ) -> None:
        self._session = session
        self._base = base_url.rstrip("/")
        self._headers = dict(headers)
        self._limit = min(seconds, _LIMIT)  # of a look at something
        self._proxy = find_proxy(self._base)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the object that comes back for a JSON body."""
        post = Post(self._session, f"{self._base}{path}", self._headers)
        content = encode_json(body)
        try:
            async with asyncio.timeout(_limit_upload(len(content))):
                posted = await post(content)
        except TimeoutError:
            raise _make_timeout_fault(path) from None
        return _as_object(parse_body(posted.content))

    async def upload(self, path: str, purpose: str, content: bytes) -> dict[str, Any]:
        """Return the object that comes back for an uploaded file."""
        from aiohttp import ClientTimeout, FormData  # noqa: PLC0415 (an extra)

        form = FormData()
        form.add_field("purpose", purpose)
        form.add_field("file", content, filename="calipers.jsonl")
        timeout = ClientTimeout(total=_limit_upload(len(content)))
        return await self._read_object("POST", path, data=form, timeout=timeout)

    async def get(self, path: str) -> dict[str, Any]:
        """Return the object at a path."""
        from aiohttp import ClientTimeout  # noqa: PLC0415 (an extra; there, as a session is)

        return await self._read_object("GET", path, timeout=ClientTimeout(total=self._limit))

    async def _read_object(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        content = bytearray()
        async for piece in self._stream(method, path, **more):
            content += piece
            if len(content) > MOST_BYTES:
                content.clear()
                raise make_length_fault()
        return _as_object(parse_body(bytes(content)))

    async def read_list(self, path: str, after: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a list, page by page; `after` is what the next page is asked by.

        Raises:
            Fault: The provider does not answer, or has no such list.
        """
        query = f"?limit={_PAGE}"
        for _ in range(_MOST_PAGES):
            page = await self.get(f"{path}{query}")
            if not isinstance(listed := page.get("data"), list):
                raise Fault("bad_response", f"{path}: what comes back is no list", again=True)
            for entry in listed:
                yield _as_object(entry)
            if not listed or page.get("has_more") is not True:
                return
            query = f"?limit={_PAGE}&{after}={_as_object(listed[-1]).get('id')}"
        raise Fault("bad_response", f"{path}: a list without end", again=True)

    async def read_lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a file of JSON lines, which may be larger than memory."""
        from aiohttp import ClientTimeout  # noqa: PLC0415 (an extra; there, as a session is)

        rest = b""
        limit = ClientTimeout(total=_LONGEST, sock_connect=self._limit, sock_read=self._limit)
        async for piece in self._stream("GET", path, timeout=limit):
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > MOST_BYTES:
                raise make_length_fault()
            for line in lines:
                if line.strip():
                    yield _as_object(parse_body(line))
        if rest.strip():
            yield _as_object(parse_body(rest))

    async def _stream(self, method: str, path: str, **more: Any) -> AsyncIterator[bytes]:
        from aiohttp import ClientError  # noqa: PLC0415 (an extra; there, as a session is)

        try:
            async with self._session.request(
                method,
                f"{self._base}{path}",
                headers=self._headers,
                proxy=self._proxy,
                allow_redirects=False,  # a key goes to nobody else
                **more,
            ) as response:
                if response.status != _OK:
                    content = await response.content.read(_CHUNK)
                    raise make_status_fault(response.status, response.headers, content)
                async for piece in iterate_body(response):
                    yield piece
        except TimeoutError:
            raise _make_timeout_fault(path) from None
        except (OSError, ClientError) as error:
            raise make_connection_fault(error) from error


def encode_lines(lines: list[Mapping[str, Any]]) -> bytes:
    """Return objects as JSON lines."""
    return b"".join(json.dumps(line, default=str).encode() + b"\n" for line in lines)


def read_batch_id(batch: Mapping[str, Any]) -> str:
    """Return the name of a batch, or raise a Fault."""
    name = batch.get("id")
    if not isinstance(name, str) or not name:
        raise Fault("bad_response", "the batch has no id", again=True)
    return name


def _make_timeout_fault(path: str) -> Fault:
    return Fault("timeout", f"{path}: no reply in time", again=True, outage=True)


def _limit_upload(size: int) -> float:
    """Return the seconds that an upload of so many bytes may take."""
    return _LIMIT + size / _SLOWEST


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
