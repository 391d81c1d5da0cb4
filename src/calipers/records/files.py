"""Open a file or a folder as a source: its name and its beginning decide the format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import polars as pl

from calipers.records.batch import Source
from calipers.records.csv_file import Csv
from calipers.records.fields import FIELDS
from calipers.records.heads import Head, find_suffix, read_head, refuse_no_text
from calipers.records.json_values import JsonArray, JsonObjects, WrappedRecords
from calipers.records.jsonl import JsonLines, PipedJsonLines
from calipers.records.lakehouse import find_lakehouse_table, refuse_part
from calipers.records.logs import (
    Log,
    LogReader,
    find_reader,
    list_readers,
    log_at,
    open_own_log,
    open_table_log,
)
from calipers.records.reading import get_reading
from calipers.records.result_folder import RECORDS, find_folder
from calipers.records.tables import Parquet, ParquetFolder, list_parts
from calipers.support.errors import DataError, UsageError

_RECORDS = "records"  # the --source for plain records
_ARRAY = ".json"
_KINDS = {list: "list of other things", str: "text", int: "number", float: "number"}
_TEXT = (".jsonl", ".ndjson", ".json", ".csv")
_READERS: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), JsonLines),
    ".csv": Csv,
    **dict.fromkeys((".parquet", ".pq"), Parquet),
}
# Fields of a record that a wrapper may have too, for all its records.
_ABOUT_ALL = frozenset(("id", "model", "tier", "run", "category", "tags", "error", "usage"))
_USUAL = ("records", "results", "samples", "examples", "rows", "data", "items", "test_cases")


def is_readable(path: Path) -> bool:
    """Say whether a file's name is one of a format that is read."""
    return find_suffix(path) in _READERS or find_suffix(path) in _list_log_suffixes()


def _list_log_suffixes() -> list[str]:
    return [suffix for reader in list_readers() for suffix in reader.suffixes]


def find_forced() -> LogReader | None:
    """Return the log reader that the user forces, if any."""
    name = get_reading().source
    return None if name is None or name.lower() == _RECORDS else find_reader(name)


def _is_plain() -> bool:
    """Say whether the user wants every file read as plain records."""
    return (get_reading().source or "").lower() == _RECORDS


def has_records(folder: Path) -> bool:
    """Say whether a folder holds records itself: as parts of Parquet, or as another tool's logs."""
    return bool(list_parts(folder) or find_logs(folder))


def find_logs(folder: Path) -> list[Path]:
    """Return the logs that Inspect, lm-eval or another tool left in a folder."""
    forced = find_forced()
    if forced is None and (_is_plain() or list_parts(folder)):
        return []
    for reader in list_readers() if forced is None else [forced]:
        if logs := sorted(each for pattern in reader.in_folders for each in folder.glob(pattern)):
            return logs
    if forced is None:
        return []
    return sorted(each for each in folder.iterdir() if each.is_file() and is_readable(each))


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
        from calipers.records.pipes import open_pipe  # noqa: PLC0415 (only where there are pipes)

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
        refuse_no_text(path)
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
    suffix = find_suffix(path)
    named = suffix not in _READERS and suffix in _list_log_suffixes()
    if named and not _is_plain() and (log := log_at(path, suffix)) is not None:
        return log
    head = read_head(path)
    log = None if _is_plain() else open_own_log(path, suffix, head) or log_at(path, suffix, head)
    return log or _open_plain_json(path, suffix, head)


def _open_plain_json(path: Path, suffix: str, head: Head) -> Source:
    if suffix == _ARRAY and head.is_array:
        return JsonArray(path)
    if head.alone and not head.is_array and not isinstance(head.first, dict):
        raise DataError(
            f"{path}: one JSON {_KINDS.get(type(head.first), 'value')}, not records",
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


def _refuse_unreadable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", fix="check the file's permissions") from error


def open_stream(stream: IO[bytes], name: str, *, is_ours: bool = False) -> Source:
    """Return the records that arrive on a stream: lines, unless the user says whose log it is."""
    if (forced := find_forced()) is None:
        return PipedJsonLines(stream, name, is_ours=is_ours)
    from calipers.records.piped_log import PipedLog  # noqa: PLC0415 (where it is asked for)

    with stream if is_ours else nullcontext():
        return PipedLog(stream, name, forced)


def _find_list(document: Any) -> str | None:
    """Return the key of the list of records in a wrapper; None for a record, or if unclear."""
    if not isinstance(document, Mapping) or (FIELDS.keys() - _ABOUT_ALL) & document.keys():
        return None
    lists = [
        name
        for name, each in document.items()
        if isinstance(each, list) and each and isinstance(each[0], Mapping)
    ]
    usual = [name for name in _USUAL if name in lists]
    return lists[0] if len(lists) == 1 else usual[0] if len(usual) == 1 else None
