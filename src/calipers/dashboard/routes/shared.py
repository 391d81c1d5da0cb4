"""What several pages pass to their templates: navigation, and the form of filters."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from calipers.dashboard.filters import Query
from calipers.dashboard.index import classify
from calipers.dashboard.indexes import Opened
from calipers.dashboard.run import Run


def make_nav(run: Run, query: Query, here: str) -> dict[str, Any]:
    """Return the run, the view, and which of the run's pages this is."""
    return {"run": run, "query": query, "here": here, "rows_url": query.rows.to_url()}


def redirect_form(request: Request, query: Query) -> Response | None:
    """Return a redirect from the form for a further filter to the address of that view, or None."""
    if "add_field" not in request.query_params:
        return None
    return RedirectResponse(f"{request.url.path}{query.to_url()}", 303)


def make_filter_form(query: Query, opened: Opened | None) -> dict[str, Any]:
    """Return the active filters, and the columns that further ones may be on."""
    columns = [] if opened is None else opened.index.columns.items()
    return {
        "filters": [(each, query.drop_filter(each)) for each in query.filters],
        "columns": [(name, classify(dtype)) for name, dtype in columns],
    }
