"""The address of a request: the server, and what is asked of it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlsplit

from calipers.support.errors import UsageError

_PORTS = {"http": 80, "https": 443}
_UNQUOTED = "/?:@!$&'()*+,;=~%"
_EXAMPLE = "for example http://localhost:8000/v1"


class Address(NamedTuple):
    """A URL, as a request needs it.

    >>> parse_address("http://[::1]:8000/v1/é?q=1 2")
    Address(scheme='http', host='::1', port=8000, named='[::1]:8000', target='/v1/%C3%A9?q=1%202')
    >>> parse_address("https://api.example.com").named
    'api.example.com'
    """

    scheme: str
    host: str
    port: int
    named: str  # in the header `Host`
    target: str  # path and query


def parse_address(url: str) -> Address:
    """Return the address in a URL; UsageError says why it is none."""
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        host = name if name.isascii() else _encode_host(name)
    except (ValueError, KeyError) as error:  # of idna, too
        raise UsageError(f"{url}: not the address of a server: {error}", fix=_EXAMPLE) from error
    if not host:
        raise UsageError(f"{url}: it names no server", fix=_EXAMPLE)
    named = f"[{host}]" if ":" in host else host
    if port != _PORTS[parts.scheme]:
        named = f"{named}:{port}"
    query = f"?{quote(parts.query, _UNQUOTED)}" if parts.query else ""
    return Address(parts.scheme, host, port, named, (quote(parts.path, _UNQUOTED) or "/") + query)


def _encode_host(name: str) -> str:
    """Return the name as it is looked up: Python's own codec knows the rules of 2003 alone."""
    import idna  # noqa: PLC0415 (comes with aiohttp; only for names that are not ASCII)

    return idna.encode(name, uts46=True).decode()
