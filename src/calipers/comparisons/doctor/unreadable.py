"""What a file that cannot be read looks like, and what to do."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from calipers.support.errors import CalipersError

_HEAD = 1 << 16
_COLUMNS = 2


def guess_contents(path: str, error: CalipersError) -> tuple[str, str]:
    """Return what is wrong with a file, and what to do by what is in it."""
    told = any(words in error.message for words in ("unknown format", "no row can be read"))
    found = next(_list_guesses(Path(path)), None) if told else None
    if found is None:
        return error.message, error.fix
    what, fix = found
    return f"{error.message}; it looks like {what}", fix


def _list_guesses(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return
    if b"\0" in head:
        yield "binary data", "name a file of records: JSON lines, CSV, Parquet, or a tool's log"
        return
    lines = [line for line in head.decode("utf-8", "replace").split("\n") if line.strip()]
    if not lines:
        return
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(lines[0]), dict):
            yield "JSON lines", f"rename it to {path.with_suffix('.jsonl').name}"
    if head.lstrip()[:1] in (b"[", b"{"):
        yield "JSON", f"rename it to {path.with_suffix('.json').name}"
    for mark, name in ((",", "CSV"), ("\t", "a table with tabs"), (";", "CSV with semicolons")):
        widths = {len(row) for row in csv.reader(lines[:20], delimiter=mark)}
        if len(widths) == 1 and min(widths) >= _COLUMNS:
            yield name, f"write it with commas, and call it {path.with_suffix('.csv').name}"
