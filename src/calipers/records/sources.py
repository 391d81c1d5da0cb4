"""Sources of records: whatever a user passes as data becomes a list of sources to read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any

from calipers.records.any_rows import read_columns
from calipers.records.batch import CHECK, BadRow, Batch, Chunk, Source, UnusualRows, Wanted
from calipers.records.csv_file import Csv
from calipers.records.frames import (
    as_polars,
    is_of_spark,
    is_pandas,
    is_table,
    list_pandas_rows,
)
from calipers.records.heads import Head, find_suffix, read_head, refuse_no_text
from calipers.records.json_document import find_list
from calipers.records.json_values import JsonArray, JsonObjects, WrappedRecords
from calipers.records.jsonl import JsonLines, PipedJsonLines
from calipers.records.lakehouse import find_lakehouse_table, refuse_part
from calipers.records.limits import limit_reading
from calipers.records.logs import (
    Log,
    LogReader,
    find_reader,
    list_readers,
    log_at,
    open_own_log,
    open_table_log,
)
from calipers.records.parquet_folder import ParquetFolder, list_parts
from calipers.records.reading import get_reading, read_with
from calipers.records.result_folder import RECORDS, find_folder
from calipers.records.tables import Parquet, Rows, SourceTable
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
    "has_records",
    "is_readable",
    "limit_reading",
    "open_sources",
]

STDIN = "-"
_RECORDS = "records"  # the --source that is no log
_ARRAY = ".json"
_TEXT = (".jsonl", ".ndjson", ".json", ".csv")
_READERS: dict[str, Callable[[Path], Source]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonLines,
    ".csv": Csv,
    ".parquet": Parquet,
    ".pq": Parquet,
}
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


def is_readable(path: Path) -> bool:
    """Say whether a file's name is one of a format that is read."""
    return find_suffix(path) in _READERS or find_suffix(path) in _log_suffixes()


def _log_suffixes() -> list[str]:
    return [suffix for reader in list_readers() for suffix in reader.suffixes]


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
            yield _open_file(Path(match))
    elif path.is_dir() and (logs := _find_logs(path)):
        yield from map(_open_file, logs)
    else:
        yield _open_file(path)


def has_records(folder: Path) -> bool:
    """Say whether a folder holds records itself: as parts of Parquet, or as another tool's logs."""
    return bool(list_parts(folder) or _find_logs(folder))


def find_forced() -> LogReader | None:
    """Return the log reader that the user forces, if any."""
    name = get_reading().source
    return None if name is None or name.lower() == _RECORDS else find_reader(name)


def _is_plain() -> bool:
    """Say whether the user wants no file to be taken for a log."""
    return (get_reading().source or "").lower() == _RECORDS


def _find_logs(folder: Path) -> list[Path]:
    """Return the logs that Inspect, lm-eval or another tool left in a folder."""
    forced = find_forced()
    if forced is None and (_is_plain() or list_parts(folder)):
        return []
    readers = list_readers() if forced is None else [forced]
    found = (
        sorted(each for pattern in reader.in_folders for each in folder.glob(pattern))
        for reader in readers
    )
    logs = next(filter(None, found), [])
    if forced is not None and not logs:
        logs = sorted(each for each in folder.iterdir() if each.is_file() and is_readable(each))
    return logs


def _open_file(path: Path) -> Source:
    if not path.exists():
        beside = sorted(other.name for other in path.parent.glob("*") if is_readable(other))
        there = f"the folder has: {', '.join(beside[:8])}" if beside else "check the path"
        raise DataError(f"{path}: no such file", fix=there)
    if path.is_dir():
        return _open_folder(path)
    if path.is_fifo():
        from calipers.records.pipes import open_pipe  # noqa: PLC0415 (only where there are pipes)

        return _open_pipe(open_pipe(path), str(path), is_ours=True)
    if not path.is_file():
        raise UsageError(f"{path}: not a file", fix="name a file, a glob, a folder, or - for stdin")
    reader = _READERS.get(find_suffix(path))
    if reader is None and (find_forced() is not None or find_suffix(path) in _log_suffixes()):
        reader = JsonLines
    if reader is None:
        raise UsageError(
            f"{path}: unknown format {find_suffix(path) or '(no suffix)'}",
            fix=f"known: {', '.join((*_READERS, *_log_suffixes()))}, "
            "the text formats also with .gz or .zst; "
            "or pipe JSON lines in: calipers score - < FILE",
        )
    _refuse_unreadable(path)
    if reader is Parquet:
        refuse_part(path)
    if find_suffix(path) in _TEXT:
        refuse_no_text(path)
    if (forced := find_forced()) is not None:
        return Log(path, forced)
    return _open_json(path) if reader is JsonLines else _open_table(path, reader(path))


def _open_table(path: Path, table: Source) -> Source:
    """Return a tool's log if the columns of a table are those of one, else the table."""
    if _is_plain():
        return table
    return open_table_log(path, read_columns(table)) or table


def _open_folder(path: Path) -> Source:
    parts = list_parts(path)
    if (table := find_lakehouse_table(path, parts)) is not None:
        return table
    if not parts:
        raise _make_folder_error(path)
    return ParquetFolder(path)


def _open_json(path: Path) -> Source:
    """Return the reader for a file of JSON: a tool's log, an array, one object, or lines."""
    suffix = find_suffix(path)
    named = suffix not in _READERS and suffix in _log_suffixes()
    if named and not _is_plain() and (log := log_at(path, suffix)) is not None:
        return log
    head = read_head(path)
    if _is_plain():
        return _open_plain_json(path, suffix, head)
    if (own := open_own_log(path, suffix, head)) is not None:
        return own
    if (log := log_at(path, suffix, head)) is not None:
        return log
    return _open_plain_json(path, suffix, head)


def _open_plain_json(path: Path, suffix: str, head: Head) -> Source:
    if suffix == _ARRAY and head.is_array:
        return JsonArray(path)
    if head.alone and not head.is_array and not isinstance(head.first, dict):
        raise DataError(
            f"{path}: one JSON {_name_type(head.first)}, not records",
            fix="a record is a JSON object: write one per line, or a list of them",
        )
    is_one = head.alone or not head.is_whole
    may_wrap = is_one and (suffix == _ARRAY or not head.on_one_line)
    if may_wrap and (key := find_list(head.first)) is not None:
        return WrappedRecords(path, key, [name for name in head.first if name != key])
    is_lines = head.on_one_line or head.is_array
    return JsonLines(path) if is_lines else JsonObjects(path)


def _name_type(value: Any) -> str:
    if isinstance(value, list):
        return "list of other things"
    kinds = {str: "text", bool: "value", int: "number", float: "number"}
    return kinds.get(type(value), "value")


def _make_folder_error(folder: Path) -> DataError:
    """Return the error for a folder that is not a table, naming the files in it."""
    run = find_folder(folder)
    if run is not None:
        return DataError(
            f"{folder}: a folder without Parquet parts", fix=f"name the files: {run / RECORDS}"
        )
    counts = Counter(find_suffix(each) for each in folder.iterdir() if is_readable(each))
    if not counts:
        return DataError(
            f"{folder}: a folder without any file of records",
            fix=f"name the files themselves; known are {', '.join(_READERS)}",
        )
    return DataError(
        f"{folder}: a folder without Parquet parts",
        fix=f"name the files: '{folder}/*{counts.most_common(1)[0][0]}'",
    )


def _refuse_unreachable(path: Path) -> None:
    try:
        path.exists()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the path") from error


def _refuse_unreadable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the file's permissions") from error


def _open_stdin() -> Source:
    if sys.stdin is None:
        raise UsageError("standard input is closed", fix="pipe JSON lines in, or name a file")
    return _open_pipe(sys.stdin.buffer, STDIN)


def _open_pipe(stream: IO[bytes], name: str, *, is_ours: bool = False) -> Source:
    """Return the records that arrive on a stream: lines, unless the user says whose log it is."""
    if (forced := find_forced()) is None:
        return PipedJsonLines(stream, name, is_ours=is_ours)
    from calipers.records.piped_log import PipedLog  # noqa: PLC0415 (where it is asked for)

    with stream if is_ours else nullcontext():
        return PipedLog(stream, name, forced)
