"""A file opened as pages open it, and what a view of it shows."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

from calipers.dashboard.catalog import Catalog
from calipers.dashboard.index_cache import Indexes, Opened
from calipers.dashboard.selection import Query, read_query


def opened(path: Path) -> Opened:
    entry = next(
        each for each in Catalog(path.parent).list_entries() if each.records == path.resolve()
    )
    return Indexes().open(entry, wait=30)


def query(text: str) -> Query:
    return read_query(parse_qsl(text, keep_blank_values=True))


def ids(found: Opened, text: str) -> list[str]:
    rows = found.selector.select(query(text), seconds=30).rows
    return found.index.read_column("id").gather(rows).to_list() if len(rows) else []
