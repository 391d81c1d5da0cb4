"""Access control, and what a browser may do with the responses.

The app accepts only the host names it was started with, so that no other site can reach it through
a name of its own (DNS rebinding); it only reads, except that people's ratings may be written where
it was started for them, by a form of its own and with the token; and pages may load and run nothing
but what comes from the app itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "calipers_token"
TOKEN = "token"  # noqa: S105 (the name of a parameter)
RATE = "/rate"  # the one address that may be written to
MOST_FORM = 1 << 16  # bytes
_NO_TOKEN = "open the address that calipers view printed: it holds a token\n"  # noqa: S105
_FORM = "application/x-www-form-urlencoded"

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI app that passes a request on to the dashboard, or refuses it and says why."""

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str] | None, token: str | None, rates: bool = False
    ) -> None:
        if rates and token is None:
            raise ValueError("what writes needs a token")
        self._app = app
        self._rates = rates
        self._hosts = None if hosts is None else frozenset(hosts)  # None: any, the token decides
        self._token = token
        self._asked = monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long ago somebody last asked for something."""
        return monotonic() - self._asked

    def close(self) -> None:
        """Release what the app holds."""
        self._app.state.site.close()  # type: ignore[attr-defined]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with the reason."""
        self._asked = monotonic()
        if scope["type"] == "http":
            # The server leaves the body of an answer to HEAD out.
            answer = self._choose_answer(scope)
            method = "POST" if scope["method"] == "POST" else "GET"
            await answer({**scope, "method": method}, receive, _with_headers(send))
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    def _choose_answer(self, scope: Scope) -> ASGIApp:
        """Return the dashboard, or a refusal with the reason."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        writes = self._rates and scope["method"] == "POST" and scope["path"] == RATE
        if (refusal := self._find_refusal(scope["method"], headers, writes=writes)) is not None:
            return refusal
        if self._token is None or _is_same(_read_cookie(headers.get("cookie", "")), self._token):
            return self._app
        if writes:
            return PlainTextResponse(_NO_TOKEN, 401)
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in pairs if name == TOKEN), "")
        if not _is_same(given, self._token):
            return PlainTextResponse(_NO_TOKEN, 401)
        # The token goes into a cookie and out of the address, where it could be seen or sent on.
        rest = urlencode([(name, value) for name, value in pairs if name != TOKEN])
        place = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        return PlainTextResponse("", 303, {"location": place, "set-cookie": cookie})

    def _find_refusal(
        self, method: str, headers: Mapping[str, str], *, writes: bool
    ) -> PlainTextResponse | None:
        """Return why nobody may ask this here, whatever their token; None where they may."""
        if method not in ("GET", "HEAD") and not writes:
            allowed = {"allow": "GET, HEAD"}
            return PlainTextResponse("this app only reads: GET and HEAD\n", 405, allowed)
        if self._hosts is not None and _parse_host(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("this app does not answer to that name\n", 403)
        if writes and (problem := _find_form_problem(headers)) is not None:
            return PlainTextResponse(f"{problem}\n", 403)
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        how = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        if is_foreign and how != ("navigate", "document"):  # links from there are allowed
            return PlainTextResponse("other sites may not load this\n", 403)
        return None


def _find_form_problem(headers: Mapping[str, str]) -> str | None:
    """Return why a form was not sent by a page of this app, or cannot be read; None if it was."""
    host = headers.get("host", "")
    if headers.get("origin") not in (f"http://{host}", f"https://{host}"):
        return "only pages of this app may send this"
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "other sites may not send this"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return "not a form"
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and int(length) <= MOST_FORM):
        return f"not a form of at most {MOST_FORM} bytes"
    return None


def _parse_host(header: str) -> str:
    """Return the name in a Host header, without the port."""
    name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
    return name.strip("[]").lower()


def _read_cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _is_same(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await send(message)

    return send_with_headers
