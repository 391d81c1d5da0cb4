"""Sources of records: whatever a user passes as data becomes a list of sources to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import polars as pl

from calipers.records.batch import CHECK, BadRow, Batch, Chunk, Source, UnusualRows, Wanted
from calipers.records.bytestream import shorten_error
from calipers.records.files import find_logs, open_file, open_stream
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
        if data and all(map(_is_table, data.values())):
            raise UsageError(
                f"this is several tables: {', '.join(map(str, data))}",
                fix=f"name one of them: data[{next(iter(data))!r}]",
            )
        raise UsageError(
            "records are a list of dicts, one per row; this is one dict",
            fix="wrap a single record: [record], or give columns as a data frame",
        )
    if _is_of_spark(data):  # not behind Arrow's door, which would bring all rows here
        from calipers.records.spark.table import open_frame  # noqa: PLC0415 (an extra)

        return [open_frame(data)]
    if (frame := _as_polars(data)) is not None:
        return [SourceTable(frame, "<table>")]
    if _is_pandas(data):
        return [Rows(_list_pandas_rows(data), "<table>")]
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
    try:
        is_there = path.exists()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the path") from error
    if has_magic(text) and not is_there:
        matches = sorted(glob(text, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
        if not matches:
            raise DataError(f"{text}: no file matches", fix="check the pattern and the folder")
        for match in matches:
            yield open_file(Path(match))
    elif path.is_dir() and (logs := find_logs(path)):
        yield from map(open_file, logs)
    else:
        yield open_file(path)


def _open_stdin() -> Source:
    if sys.stdin is None:
        raise UsageError("standard input is closed", fix="pipe JSON lines in, or name a file")
    return open_stream(sys.stdin.buffer, STDIN)


def _as_polars(data: Any) -> pl.LazyFrame | None:
    """Return a table of Polars, Arrow or another library as a lazy frame, or None."""
    if isinstance(data, pl.LazyFrame):
        return data
    if isinstance(data, pl.DataFrame):
        return data.lazy()
    if _is_dataset(data):
        data = data.with_format("arrow")[:]
    if hasattr(data, "__arrow_c_stream__"):  # Arrow tables, pandas ≥ 2.2, DuckDB, …
        try:
            return pl.DataFrame(data).lazy()
        except ImportError:  # pandas hands over Arrow data through pyarrow
            return None
        except (TypeError, ValueError, NotImplementedError, pl.exceptions.PolarsError) as error:
            raise DataError(
                f"<table>: cannot be read: {shorten_error(error)}",
                fix="give every column one type and a name of its own, "
                "or hand over a list of dicts: df.to_dict('records')",
            ) from error
    return None


def _is_table(data: Any) -> bool:
    """Say whether this is a table in memory, of a library that Polars knows or of Hugging Face."""
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    """Say whether this is a dataset of Hugging Face, not its splits, and not a stream of it."""
    is_theirs = type(data).__module__.partition(".")[0] == "datasets"
    return is_theirs and hasattr(data, "column_names") and hasattr(data, "select")


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "notna")


def _is_of_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "columns")


def _list_pandas_rows(data: Any) -> list[dict[str, Any]]:
    """Return the rows of a pandas frame without pyarrow; missing values as None."""
    if not hasattr(data, "columns") or not data.columns.is_unique:
        raise DataError(
            "<table>: two columns of the pandas frame have the same name, or it has none",
            fix="give every column a name of its own: df.columns = [...]",
        )
    found = data.astype(object).where(data.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]
