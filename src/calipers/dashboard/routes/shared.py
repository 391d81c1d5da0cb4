"""What several pages hand to their templates: the way between pages, and the form of filters."""

from __future__ import annotations

from typing import Any

from calipers.dashboard.filters import Query
from calipers.dashboard.index import kind_of
from calipers.dashboard.indexes import Opened
from calipers.dashboard.site import Run


def nav(run: Run, query: Query, here: str) -> dict[str, Any]:
    """The run, the view, and which of the run's pages this is."""
    return {"run": run, "query": query, "here": here, "rows_url": query.rows.to_url()}


def filter_form(query: Query, opened: Opened | None) -> dict[str, Any]:
    """The filters in force, and the columns that further ones may be on."""
    columns = [] if opened is None else opened.index.columns.items()
    return {
        "filters": [(each, query.without(each)) for each in query.filters],
        "columns": [(name, kind_of(dtype)) for name, dtype in columns],
    }
