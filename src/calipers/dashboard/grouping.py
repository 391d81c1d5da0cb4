"""The default grouping of a view whose address does not name one."""

from __future__ import annotations

from dataclasses import replace

from calipers.dashboard.filters import Query, check_column
from calipers.dashboard.index import Index
from calipers.support.errors import UsageError

_FEW = 12  # groups that can be taken in at once
MOST = 200  # groups that a page has room for


def has_few_values(index: Index, name: str, most: int = _FEW) -> bool:
    """Say whether a column has several values, and not too many to be groups."""
    return name in index.columns and 1 < index.count_distinct(name) <= most


def count_pooled(query: Query, index: Index) -> tuple[str, int] | None:
    """Return the field that distinguishes systems, and their number, if a view pools several."""
    pinned = {each.field for each in query.filters}
    for name in ("model", "tier"):
        if not query.by and name not in pinned and name in index.columns:
            count = index.count_distinct(name)
            if _FEW < count <= MOST:
                return name, count
    return None


def add_groups(query: Query, index: Index) -> Query:
    """Return the view grouped by model, tier and the like, unless it names a grouping.

    Raises:
        UsageError: There is no such field, or it has too many values for a page.
    """
    for name in query.by:
        check_column(name, index)
        if (values := index.count_distinct(name)) > MOST:
            raise UsageError(
                f"{name} has {values:,} values: too many groups for a page",
                fix=f"at most {MOST}; calipers score --by {name} measures them all",
            )
    if query.by:
        return query
    pinned = {each.field for each in query.filters if each.operator == "="}
    by = [name for name in ("model", "tier") if name not in pinned and has_few_values(index, name)]
    return replace(query, by=tuple(by[:1]))
