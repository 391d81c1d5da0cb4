"""Tables that pandas writes as one JSON object, their columns and their rows apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from calipers.records.logs.documents import is_split, read_rows
from calipers.records.logs.log import Found, LogReader
from calipers.records.logs.parts import as_mapping
from calipers.support.registry import register


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    return is_split(found) and bool(found["data"]) and isinstance(found["data"][0], list)


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    return ((dict(row), done) for row, done in read_rows(path, "", lambda _: True))


register(LogReader(name="pandas", fits=_fits, records=_read_records))
