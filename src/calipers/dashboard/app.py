"""The app: the routes behind the guard, and one place where errors become pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.indexes import NotYet
from calipers.dashboard.routes import compare, definitions, downloads, runs, samples, trends, trust
from calipers.dashboard.safety import LOOPBACK, Guard
from calipers.dashboard.site import Site, get_site
from calipers.metrics.checks.checks import Checks
from calipers.records.reading import AS_IT_IS, ReadingChoices
from calipers.support.errors import CalipersError
from calipers.support.version import __version__

ROUTES = (runs, samples, trends, compare, trust, definitions, downloads)
PARTS = ("score", "figures", "facets", "rows", "progress")  # of pages, which load them later


def create_app(
    root: Path,
    *,
    hosts: Iterable[str] | None = LOOPBACK,
    token: str | None = None,
    field_map: Mapping[str, str] | None = None,
    checks: Checks | None = None,
    reading: ReadingChoices = AS_IT_IS,
) -> Guard:
    """Return the dashboard over a folder, as an ASGI app."""
    app = FastAPI(
        title="Calipers", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.site = Site(root, field_map, checks, reading)
    for routes in ROUTES:
        app.include_router(routes.router)
    app.add_exception_handler(CalipersError, _show_error)
    app.add_exception_handler(HTTPException, _show_not_found)
    app.add_exception_handler(RequestValidationError, _show_not_found)
    app.add_exception_handler(Exception, _show_bug)
    return Guard(app, hosts=hosts, token=token)


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
