"""Logs of other tools, recognized by their content: Inspect, lm-eval, MLflow, Langfuse, and more.

Each format is one file in this folder that registers its reader; plug-ins register theirs alike.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from calipers.records.fields import FIELDS
from calipers.records.logs.log import (
    READERS,
    Figure,
    Log,
    LogReader,
    log_notices,
    log_reader,
    read_figures,
)
from calipers.records.readers.bytestream import UNREADABLE
from calipers.records.readers.json_documents import read_outline
from calipers.records.readers.sniff import Head, read_head
from calipers.support.errors import DataError, UsageError, nearest

__all__ = [
    "Figure",
    "Log",
    "LogReader",
    "find_reader",
    "list_readers",
    "log_at",
    "log_notices",
    "log_reader",
    "open_own_log",
    "open_table_log",
    "read_figures",
]

_DOCUMENT = ".json"
_HERE = str(Path(__file__).parent)


def list_readers() -> list[LogReader]:
    """Return all readers: those that users added first, then those in this folder."""
    _import_all()
    return sorted(READERS.read_all().values(), key=_is_ours)


@cache
def _import_all() -> None:
    for module in iter_modules(__path__, prefix=f"{__name__}."):
        import_module(module.name)


def _is_ours(reader: LogReader) -> bool:
    return (READERS.find_origin(reader.name) or "").startswith(_HERE)


def find_reader(name: str) -> LogReader:
    """Return the reader of a tool's logs by its name, in any spelling.

    Raises:
        UsageError: No reader has the name.
    """
    known = {reader.name: reader for reader in list_readers()}
    found = [title for title in known if _fold(title) == _fold(name)]
    if not found:
        raise UsageError(
            f"--source {name}: there is no such log reader", fix=nearest(name, [*known, "records"])
        )
    return known[found[0]]


def _fold(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def open_table_log(path: Path, columns: Collection[str]) -> Log | None:
    """Return the log in a table, if its columns are those that a tool writes, or None."""
    found = next((reader for reader in list_readers() if columns and reader.tables(columns)), None)
    return None if found is None else Log(path, found)


def open_own_log(path: Path, suffix: str, head: Head | None = None) -> Log | None:
    """Return the log in a file if a user-added reader recognizes it, or None."""
    own = [reader for reader in READERS.read_all().values() if not _is_ours(reader)]
    return _log_at(path, suffix, own, head) if own else None


def log_at(path: Path, suffix: str, head: Head | None = None) -> Log | None:
    """Return the log in a file, if it is one of another tool; `head` is what it begins with.

    Raises DataError for a file that belongs to a log and has no records in it.
    """
    if head is not None and _is_plain_record(head.first):
        return None  # the readers take a while to import
    return _log_at(path, suffix, list_readers(), head)


def _log_at(path: Path, suffix: str, known: list[LogReader], head: Head | None) -> Log | None:
    if (named := next((reader for reader in known if suffix in reader.suffixes), None)) is not None:
        return Log(path, named)
    head = head or read_head(path)
    for reader in known:
        reader.refuse(head.first, path)
    fitting = _find_reader(head.first, known)
    if fitting is None and suffix == _DOCUMENT and not head.is_whole and not head.is_array:
        # What identifies the format may come after a long beginning.
        with suppress(DataError, *UNREADABLE):
            fitting = _find_reader(read_outline(path), known)
    return None if fitting is None else Log(path, fitting)


def _is_plain_record(first: Any) -> bool:
    """Return True if a JSON is made of a record's own fields, and of nothing with parts."""
    return (
        isinstance(first, dict)
        and first.keys() <= FIELDS.keys()
        and not any(isinstance(value, list | dict) for value in first.values())
    )


def _find_reader(first: Any, known: list[LogReader]) -> LogReader | None:
    return next((reader for reader in known if reader.fits(first)), None)
