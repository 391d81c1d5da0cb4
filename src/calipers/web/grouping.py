"""By what a view is grouped where its address does not say so."""

from __future__ import annotations

from dataclasses import replace

from calipers.web.filters import Query
from calipers.web.index import Index

_FEW = 12  # groups that fit on a page


def few_values(index: Index, name: str, most: int = _FEW) -> bool:
    """Say whether a column has several values, and not too many to be groups."""
    return name in index.columns and 1 < index.distinct(name) <= most


def with_groups(query: Query, index: Index) -> Query:
    """The view grouped by what tells its records apart, where it does not say by what."""
    if query.by:
        return query
    pinned = {each.field for each in query.filters if each.operator == "="}
    by = [name for name in ("model", "tier") if name not in pinned and few_values(index, name)]
    return replace(query, by=tuple(by[:1]))
