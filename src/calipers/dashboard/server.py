"""The dashboard as an app, and the app served: a port, an address to print, errors as pages.

The routes stand behind the guard of `safety.py`; here is the one place where errors become pages.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.index_cache import NotYet
from calipers.dashboard.pages import (
    answer_pages,
    compare_pages,
    downloads,
    metric_pages,
    run_pages,
    sample_pages,
)
from calipers.dashboard.safety import LOOPBACK, TOKEN, Guard
from calipers.dashboard.site import Site, get_site, read_asset
from calipers.metrics import catalogue
from calipers.metrics.checks.checks import Checks
from calipers.records.reading_options import DEFAULT_READING, ReadingChoices
from calipers.support.errors import CalipersError, UsageError
from calipers.support.version import __version__

if TYPE_CHECKING:
    from calipers.dashboard.pages.rate_pages import Rating

ROUTES = (run_pages, answer_pages, sample_pages, metric_pages, compare_pages, downloads)
PARTS = (
    "score",
    "lead",
    "figures",
    "facets",
    "rows",
    "progress",
)  # of pages, which load them later


def create_app(
    root: Path,
    *,
    hosts: Iterable[str] | None = LOOPBACK,
    token: str | None = None,
    field_map: Mapping[str, str] | None = None,
    checks: Checks | None = None,
    reading: ReadingChoices = DEFAULT_READING,
    rating: Rating | None = None,
) -> Guard:
    """Return the dashboard over a folder, as an ASGI app; `rating` needs a token."""
    app = FastAPI(
        title="Calipers", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.site = Site(root, field_map, checks, reading)
    app.state.site.rating = rating
    for routes in ROUTES:
        app.include_router(routes.router)
    if rating is not None:
        from calipers.dashboard.pages import rate_pages  # noqa: PLC0415 (loads the statistics)

        app.include_router(rate_pages.router)
    app.add_exception_handler(CalipersError, _show_error)
    app.add_exception_handler(HTTPException, _show_not_found)
    app.add_exception_handler(RequestValidationError, _show_not_found)
    app.add_exception_handler(Exception, _show_bug)
    return Guard(app, hosts=hosts, token=token, rates=rating is not None)


def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CalipersError)
    if isinstance(error, NotYet):
        return _show_not_yet(request, error)
    gone = isinstance(error, NotHere)
    status, title = (404, "Not here") if gone else (400, "This cannot be shown")
    return _render_error(request, status, title, error.message, error.fix)


def _show_not_yet(request: Request, error: NotYet) -> Response:
    """Return a page, or part of one, that reloads by itself; for a download, when to ask again."""
    path = request.url.path
    last = path.rpartition("/")[2]
    if "." in last:
        return PlainTextResponse(error.message, 503, {"retry-after": "2"})
    name = "_not_yet.html" if last in PARTS else "not_yet.html"
    address = f"{path}?{request.url.query}" if request.url.query else path
    return get_site(request).render(name, message=error.message, address=address)


def _show_not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _render_error(
        request, status, "Not here", "There is no such page.", "go back to the list of runs"
    )


def _show_bug(request: Request, error: Exception) -> Response:
    """Return a page for an internal error: its name, and nothing about the machine."""
    said = f"{type(error).__name__}: a bug in calipers"
    return _render_error(request, 500, "Something went wrong", said, "the terminal shows where")


def _render_error(request: Request, status: int, title: str, message: str, fix: str) -> Response:
    part = request.headers.get("hx-request") == "true"
    name = "_error.html" if part else "error.html"
    return get_site(request).render(name, status, title=title, message=message, fix=fix)


IDLE = 2.0  # seconds without a request, after which background work starts
_LATER = (
    "calipers.dashboard.measurements",
    "calipers.dashboard.index_builder",
    "calipers.reports.charts",
)


def serve(
    root: Path,
    *,
    host: str,
    port: int,
    ready: Callable[[str], None],
    field_map: Mapping[str, str] | None = None,
    checks: Checks | None = None,
    reading: ReadingChoices = DEFAULT_READING,
    rate: Path | None = None,
    rater: str | None = None,
) -> None:
    """Serve a folder until somebody stops it; `ready` is given the address to open.

    People's ratings go to `rate`, if it is given; then a token is needed on this machine too.
    """
    rating = None if rate is None else _open_rating(rate, rater)
    # Neither pages nor measurements use the network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    local = host in LOOPBACK
    token = None if local and rating is None else secrets.token_urlsafe(24)
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    hosts = LOOPBACK if local else None
    app = create_app(
        root,
        hosts=hosts,
        token=token,
        field_map=field_map,
        checks=checks,
        reading=reading,
        rating=rating,
    )
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    server = _Server(
        config, lambda: ready(_make_address(host, number, token, path="rate" if rating else ""))
    )
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        app.close()


def _open_rating(file: Path, rater: str | None) -> Rating:
    from calipers.dashboard.pages.rate_pages import Rating  # noqa: PLC0415 (loads the statistics)

    return Rating(file, rater)


class _Server(uvicorn.Server):
    """A server that calls `ready` once it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, then say so."""
        await super().startup(sockets)
        self._ready()
        Thread(target=self._warm_up, daemon=True).start()

    def _warm_up(self) -> None:
        """Import what the first numbers and figures need, while no request comes in."""
        app = self.config.app
        assert isinstance(app, Guard)
        catalogue()  # what the list and an index need first
        for name in _LATER:
            while app.idle_seconds < IDLE:
                sleep(IDLE / 4)
            import_module(name)
        read_asset("vega.js")


def _make_address(host: str, port: int, token: str | None, path: str = "") -> str:
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):  # noqa: S104 (a name to print, nothing is bound to it)
        shown = socket.gethostname()
    return f"http://{shown}:{port}/{path}" + (f"?{TOKEN}={token}" if token else "")


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the port asked for, so that two dashboards never share one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        raise UsageError(
            f"port {port} of {host}: {getattr(error, 'strerror', None) or error}",
            fix="another dashboard may have it; --port 0 takes any that is free",
        ) from error
    return made
