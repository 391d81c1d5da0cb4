"""Sources of records: whatever a user passes as data becomes a list of sources to read.

`open_sources` takes paths, globs, folders, `-`, addresses, lists of dicts and tables of other
libraries. `open_file` decides the format of one file or folder, by its name and its beginning.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import polars as pl

from calipers.records.batch import Source
from calipers.records.fields import FIELDS
from calipers.records.lakehouse import (
    find_lakehouse_table,
    is_lakehouse,
    open_table,
    refuse_part,
)
from calipers.records.logs import (
    find_reader,
    list_readers,
    log_at,
    open_own_log,
    open_table_log,
)
from calipers.records.logs.log import Log, LogReader
from calipers.records.readers.bytestream import shorten_error
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.json_documents import JsonArray, JsonObjects, WrappedRecords
from calipers.records.readers.lines import JsonLines, PipedLines
from calipers.records.readers.sniff import Head, find_suffix, read_head, refuse_binary
from calipers.records.readers.tables import (
    Parquet,
    ParquetFolder,
    RowList,
    SourceTable,
    list_parts,
)
from calipers.records.reading_options import get_reading_choices, read_with
from calipers.records.result_folder import (
    MANIFEST,
    RECORDS,
    find_folder,
    get_suite,
    read_json_object,
)
from calipers.support.config import shown
from calipers.support.errors import ArgumentTypeError, DataError, UsageError

_RECORDS = "records"  # the --source for plain records
_ARRAY = ".json"
_JSON_KINDS = {list: "list of other things", str: "text", int: "number", float: "number"}
_TEXT = (".jsonl", ".ndjson", ".json", ".csv")
_READERS: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), JsonLines),
    ".csv": Csv,
    **dict.fromkeys((".parquet", ".pq"), Parquet),
}
# Fields of a record that a wrapper may have too, for all its records.
_ABOUT_ALL = frozenset(
    ["id", "model", "tier", "variant", "run", "category", "tags", "error", "usage"]
)
_WRAPPER_KEYS = ("records", "results", "samples", "examples", "rows", "data", "items", "test_cases")


def is_readable(path: Path) -> bool:
    """Return True if a file's name is one of a format that is read."""
    return find_suffix(path) in _READERS or find_suffix(path) in _list_log_suffixes()


def _list_log_suffixes() -> list[str]:
    return [suffix for reader in list_readers() for suffix in reader.suffixes]


def find_forced() -> LogReader | None:
    """Return the log reader that the user forces, if any."""
    name = get_reading_choices().source
    return None if name is None or name.lower() == _RECORDS else find_reader(name)


def _is_plain() -> bool:
    """Return True if the user wants every file read as plain records."""
    return (get_reading_choices().source or "").lower() == _RECORDS


def has_records(folder: Path) -> bool:
    """Return True if a folder holds records: as parts of Parquet, or as another tool's logs."""
    return bool(list_parts(folder) or find_logs(folder))


def find_logs(folder: Path) -> list[Path]:
    """Return the logs that Inspect, lm-eval or another tool left in a folder."""
    forced = find_forced()
    if forced is None and (_is_plain() or list_parts(folder)):
        return []
    for reader in list_readers() if forced is None else [forced]:
        if logs := sorted(path for pattern in reader.in_folders for path in folder.glob(pattern)):
            return logs
        if logs := list(reader.find(folder)):
            return logs
    if forced is None:
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and is_readable(path))


def open_file(path: Path) -> Source:
    """Return the source that a file, a folder of parts or a pipe is.

    Raises:
        DataError: It is not there, cannot be read, or holds no records.
        UsageError: Its format is unknown.
    """
    if not path.exists():
        beside = sorted(other.name for other in path.parent.glob("*") if is_readable(other))
        there = f"the folder has: {', '.join(beside[:8])}" if beside else "check the path"
        raise DataError(f"{path}: no such file", fix=there)
    if path.is_dir():
        return _open_folder(path)
    if path.is_fifo():
        from calipers.records.readers.streams import open_pipe  # noqa: PLC0415 (only where there are pipes)

        return open_stream(open_pipe(path), str(path), is_ours=True)
    if not path.is_file():
        raise UsageError(f"{path}: not a file", fix="name a file, a glob, a folder, or - for stdin")
    reader = _READERS.get(find_suffix(path))
    if reader is None and (find_forced() is not None or find_suffix(path) in _list_log_suffixes()):
        reader = JsonLines
    if reader is None:
        raise UsageError(
            f"{path}: unknown format {find_suffix(path) or '(no suffix)'}",
            fix=f"known: {', '.join((*_READERS, *_list_log_suffixes()))}, "
            "the text formats also with .gz or .zst; "
            "or pipe JSON lines in: calipers score - < FILE",
        )
    _refuse_unreadable(path)
    if reader is Parquet:
        refuse_part(path)
    if find_suffix(path) in _TEXT:
        refuse_binary(path)
    if (forced := find_forced()) is not None:
        return Log(path, forced)
    return _open_json(path) if reader is JsonLines else _open_table(path, reader(path))


def _open_table(path: Path, table: Source) -> Source:
    """Return a tool's log if the columns of a table are those of one, else the table."""
    if _is_plain():
        return table
    try:
        return open_table_log(path, table.columns()) or table
    except (DataError, pl.exceptions.PolarsError):  # reported when it is read
        return table


def _open_folder(path: Path) -> Source:
    parts = list_parts(path)
    if (table := find_lakehouse_table(path, parts)) is not None:
        return table
    if not parts:
        raise _make_folder_error(path)
    return ParquetFolder(path)


def _open_json(path: Path) -> Source:
    """Return the reader for a file of JSON: a tool's log, an array, one object, or lines."""
    if path.name == RECORDS and get_suite(read_json_object(path.parent / MANIFEST)):
        return JsonLines(path)  # of a run: what its systems say does not make it another tool's
    suffix = find_suffix(path)
    named = suffix not in _READERS and suffix in _list_log_suffixes()
    if named and not _is_plain() and (log := log_at(path, suffix)) is not None:
        return log
    head = read_head(path)
    if _is_plain():
        for reader in list_readers():
            reader.refuse_plain(head.first, path)
    log = None if _is_plain() else open_own_log(path, suffix, head) or log_at(path, suffix, head)
    return log or _open_plain_json(path, suffix, head)


def _open_plain_json(path: Path, suffix: str, head: Head) -> Source:
    if suffix == _ARRAY and head.is_array:
        return JsonArray(path)
    if head.alone and not head.is_array and not isinstance(head.first, dict):
        raise DataError(
            f"{path}: one JSON {_JSON_KINDS.get(type(head.first), 'value')}, not records",
            fix="a record is a JSON object: write one per line, or a list of them",
        )
    is_one = head.alone or not head.is_whole
    may_wrap = is_one and (suffix == _ARRAY or not head.on_one_line)
    if may_wrap and (key := _find_list(head.first)) is not None:
        return WrappedRecords(path, key, [name for name in head.first if name != key])
    is_lines = head.on_one_line or head.is_array
    return JsonLines(path) if is_lines else JsonObjects(path)


def _make_folder_error(folder: Path) -> DataError:
    """Return the error for a folder that is not a table, naming the files in it."""
    run = find_folder(folder)
    if run is not None:
        return DataError(
            f"{folder}: a folder without Parquet parts", fix=f"name the files: {run / RECORDS}"
        )
    readable = list_readable(folder)
    counts = Counter(find_suffix(path) for path in readable)
    if not counts:
        return DataError(
            f"{folder}: a folder without any file of records",
            fix=f"name the files themselves; known are {', '.join(_READERS)}",
        )
    pattern = f"{'' if readable[0].parent == folder else '**/'}*{counts.most_common(1)[0][0]}"
    return DataError(
        f"{folder}: a folder without Parquet parts", fix=f"name the files: '{folder}/{pattern}'"
    )


def list_readable(folder: Path) -> list[Path]:
    """Return the files in a folder that may hold records; where it has none, those further down."""
    here = [path for path in folder.iterdir() if path.is_file() and is_readable(path)]
    below = (path for path in folder.rglob("*") if path.is_file() and is_readable(path))
    return sorted(here or (path for path in below if not _is_hidden(path.relative_to(folder))))


def _is_hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)


def _refuse_unreadable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the file's permissions") from error


def open_stream(stream: IO[bytes], name: str, *, is_ours: bool = False) -> Source:
    """Return the records that arrive on a stream: lines, unless the user says whose log it is."""
    if (forced := find_forced()) is None:
        return PipedLines(stream, name, is_ours=is_ours)
    from calipers.records.readers.streams import PipedLog  # noqa: PLC0415 (where it is asked for)

    with stream if is_ours else nullcontext():
        return PipedLog(stream, name, forced)


def _find_list(document: Any) -> str | None:
    """Return the key of the list of records in a wrapper; None for a record, or if unclear."""
    if not isinstance(document, Mapping) or (FIELDS.keys() - _ABOUT_ALL) & document.keys():
        return None
    lists = [
        name
        for name, value in document.items()
        if isinstance(value, list) and value and isinstance(value[0], Mapping)
    ]
    usual = [name for name in _WRAPPER_KEYS if name in lists]
    return lists[0] if len(lists) == 1 else usual[0] if len(usual) == 1 else None


STDIN = "-"
# What Spark alone reads: names in its catalog, and the file systems of Hadoop.
_SPARK_SCHEMES = ("table", "hdfs", "s3a", "abfs", "abfss", "wasbs", "dbfs", "viewfs")


def open_sources(data: Any) -> list[Source]:
    """Return sources of a path, glob, folder, `-`, a list of these, a list of dicts, or a table.

    A name `table:NAME` and some addresses are Spark's to read, and so is its data frame.

    A source is one already, and so are several in a list.
    """
    sources = _open_data(data)
    reading = get_reading_choices()
    if reading.join is None and not reading.answers:
        return sources
    from calipers.records.readers.joins import (  # noqa: PLC0415 (where they are asked for)
        JoinedRows,
        WideTable,
        join_tasks,
        spread_answers,
    )

    if any(isinstance(source, JoinedRows | WideTable) for source in sources):
        return sources  # opened before
    if reading.join is not None:
        with read_with():
            tasks = _open_data(reading.join)
        sources = join_tasks(sources, tasks, str(reading.join), reading.on)
    if reading.answers:
        sources = spread_answers(sources, reading.answers)
    return sources


def _open_data(data: Any) -> list[Source]:
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
        return [load_spark_sources().open_frame(data)]
    if (frame := _as_polars(data)) is not None:
        return [SourceTable(frame, "<table>")]
    if _is_pandas(data):
        return [RowList(_list_pandas_rows(data), "<table>")]
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
    return [RowList(items, "<records>")]


def load_spark_sources() -> Any:
    """Return the module of Spark's sources, which stands with its engine and is an extra."""
    return import_module("calipers.engines.spark.spark_sources")


def _open_path(text: str) -> Iterator[Source]:
    if text == STDIN:
        yield _open_stdin()
        return
    if not text:
        raise UsageError("an empty path", fix="name a file, a glob, a folder, or - for stdin")
    if text.partition(":")[0] in _SPARK_SCHEMES and ":" in text:
        yield load_spark_sources().open_address(text)
        return
    if is_lakehouse(text):
        yield open_table(text)
        return
    if "://" in text:
        from calipers.records.readers.streams import open_remote  # noqa: PLC0415 (only where one is named)

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
        yield from _open_matches(text, [Path(match) for match in matches])
    else:
        yield from _open_place(path)


def _open_matches(text: str, matches: list[Path]) -> Iterator[Source]:
    """Yield the sources of what a pattern matches: where folders of logs are, of these alone."""
    folders = [path for path in matches if path.is_dir() and find_logs(path)]
    sources = [source for path in folders or matches for source in _open_place(path)]
    if folders and (others := len(matches) - len(folders)):
        line = f"{text}: {others} of {len(matches)} matches hold no logs, and are not read"
        for log in sources:
            if isinstance(log, Log):
                log.passed_over = (line, *log.passed_over)
                break
    yield from sources


def _open_place(path: Path) -> Iterator[Source]:
    """Yield the sources of a file, or of a folder that is a table or holds logs."""
    logs = find_logs(path) if path.is_dir() else []
    sources = list(map(open_file, logs or [path]))
    for log in sources if logs else ():
        if isinstance(log, Log):
            log.passed_over = tuple(log.format.passed_over(path))
            break
    yield from sources


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
            if _is_pandas(data):  # which may hold values of several types in a column
                return None
            raise DataError(
                f"<table>: cannot be read: {shorten_error(error)}",
                fix="give every column one type and a name of its own, "
                "or hand over a list of dicts: df.to_dict('records')",
            ) from error
    return None


def _is_table(data: Any) -> bool:
    """Return True if this is a table in memory, of a library Polars knows or of Hugging Face."""
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def _is_dataset(data: Any) -> bool:
    """Return True if this is a dataset of Hugging Face, not its splits, and not a stream of it."""
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
    records = data.astype(object).where(data.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records]
