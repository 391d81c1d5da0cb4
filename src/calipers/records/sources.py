"""Sources of records: whatever a user passes as data becomes a list of sources to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from calipers.records.batch import CHECK, BadRow, Batch, Chunk, Source, UnusualRows, Wanted
from calipers.records.files import find_logs, open_file, open_stream
from calipers.records.frames import (
    as_polars,
    is_of_spark,
    is_pandas,
    is_table,
    list_pandas_rows,
)
from calipers.records.limits import limit_reading
from calipers.records.reading import get_reading, read_with
from calipers.records.tables import Rows, SourceTable
from calipers.support.config.files import shown
from calipers.support.errors import ArgumentTypeError, DataError, UsageError

__all__ = [
    "CHECK",
    "BadRow",
    "Batch",
    "Chunk",
    "Source",
    "UnusualRows",
    "Wanted",
    "limit_reading",
    "open_sources",
]

STDIN = "-"
# What Spark alone reads: names in its catalog, and the file systems of Hadoop.
_OF_SPARK = ("table", "hdfs", "s3a", "abfs", "abfss", "wasbs", "dbfs", "viewfs")


def open_sources(data: Any) -> list[Source]:
    """Return sources of a path, glob, folder, `-`, a list of these, a list of dicts, or a table.

    A name `table:NAME` and some addresses are Spark's to read, and so is its data frame.

    A source is one already, and so are several in a list.
    """
    found = _open(data)
    reading = get_reading()
    if reading.join is None:
        return found
    from calipers.records.joined import join_tasks  # noqa: PLC0415 (where it is asked for)

    with read_with():
        tasks = _open(reading.join)
    return join_tasks(found, tasks, str(reading.join), reading.on)


def _open(data: Any) -> list[Source]:
    if isinstance(data, str | Path):
        return list(_open_path(str(data)))
    if isinstance(data, Mapping):
        if data and all(map(is_table, data.values())):
            raise UsageError(
                f"this is several tables: {', '.join(map(str, data))}",
                fix=f"name one of them: data[{next(iter(data))!r}]",
            )
        raise UsageError(
            "records are a list of dicts, one per row; this is one dict",
            fix="wrap a single record: [record], or give columns as a data frame",
        )
    if is_of_spark(data):  # not behind Arrow's door, which would bring all rows here
        from calipers.records.spark.table import open_frame  # noqa: PLC0415 (an extra)

        return [open_frame(data)]
    if (frame := as_polars(data)) is not None:
        return [SourceTable(frame, "<table>")]
    if is_pandas(data):
        return [Rows(list_pandas_rows(data), "<table>")]
    if isinstance(data, Source):  # not before: to look at a lazy frame's columns is work
        return [data]
    if isinstance(data, Iterable):
        return _open_items(list(data))
    raise ArgumentTypeError(
        f"records cannot be read from {type(data).__name__} {shown(data)}",
        fix="give a path, a list of dicts, or a Polars, pandas, Arrow or Spark table",
    )


def _open_items(items: list[Any]) -> list[Source]:
    """Return the sources of paths, of records, or those that are sources already."""
    if items and all(isinstance(item, str | Path) for item in items):
        return [source for item in items for source in _open_path(str(item))]
    if items and all(isinstance(item, Source) for item in items):
        return items
    return [Rows(items, "<records>")]


def _open_path(text: str) -> Iterator[Source]:
    if text == STDIN:
        yield _open_stdin()
        return
    if not text:
        raise UsageError("an empty path", fix="name a file, a glob, a folder, or - for stdin")
    if text.partition(":")[0] in _OF_SPARK and ":" in text:
        from calipers.records.spark.table import open_address  # noqa: PLC0415 (an extra)

        yield open_address(text)
        return
    if "://" in text:
        from calipers.records.remote import open_remote  # noqa: PLC0415 (only where one is named)

        yield open_remote(text)
        return
    path = Path(text)
    _refuse_unreachable(path)
    if has_magic(text) and not path.exists():
        matches = sorted(glob(text, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
        if not matches:
            raise DataError(f"{text}: no file matches", fix="check the pattern and the folder")
        for match in matches:
            yield open_file(Path(match))
    elif path.is_dir() and (logs := find_logs(path)):
        yield from map(open_file, logs)
    else:
        yield open_file(path)


def _refuse_unreachable(path: Path) -> None:
    try:
        path.exists()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the path") from error


def _open_stdin() -> Source:
    if sys.stdin is None:
        raise UsageError("standard input is closed", fix="pipe JSON lines in, or name a file")
    return open_stream(sys.stdin.buffer, STDIN)
