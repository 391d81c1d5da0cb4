"""The rows in a file of any format, as tools export them: lines, a list, or inside an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.any_rows import iterate_rows
from calipers.records.batch import Source
from calipers.records.csv_file import Csv
from calipers.records.heads import Head, find_suffix, read_head
from calipers.records.json_values import JsonObjects, stream_list
from calipers.records.logs.parts import as_list, as_mapping, parse_json, read_json_lines
from calipers.records.tables import Parquet

Row = Mapping[str, Any]
Matches = Callable[[Collection[str]], bool]

_TABLES: dict[str, Callable[[Path], Source]] = {".csv": Csv, ".parquet": Parquet, ".pq": Parquet}
_COLUMNS, _DATA = "columns", "data"  # how pandas writes a table as one JSON object


def find_rows(document: Any, key: str, matches: Matches) -> str | None:
    """Return the key of the list in which a tool's rows are; "" if the JSON itself is these.

    None where the JSON is not of the tool.
    """
    if isinstance(document, list):
        return "" if document and matches(as_mapping(document[0])) else None
    found = as_mapping(document)
    if is_split(found):
        return _DATA if matches([str(each) for each in found[_COLUMNS]]) else None
    if matches(found):
        return ""
    for name in [key] if key else found:
        rows = as_list(found.get(name))
        if rows and matches(as_mapping(rows[0])):
            return name
    return None


def is_split(document: Row) -> bool:
    """Say whether an object is a table of pandas: its columns, and its rows as lists."""
    return isinstance(document.get(_COLUMNS), list) and isinstance(document.get(_DATA), list)


def read_rows(
    path: Path, key: str, matches: Matches, beside: dict[str, Any] | None = None
) -> Iterator[tuple[Row, float]]:
    """Yield the rows of a file and the share of it behind each, in flat memory.

    `beside` is given what stands before a list of rows that is inside an object.
    """
    suffix = find_suffix(path)
    if suffix in _TABLES:
        yield from iterate_rows(_TABLES[suffix](path))
        return
    head = read_head(path)
    is_document = head.alone or not head.is_whole or not head.on_one_line
    if head.is_array:
        yield from _as_rows(stream_list(path, (), {}))
    elif is_document and (inside := find_rows(head.first, key, matches)):
        yield from _read_inside(path, head, inside, {} if beside is None else beside)
    elif head.on_one_line and not head.alone:
        yield from read_json_lines(path)
    else:  # objects one after another, each on one line or several
        for block, done in JsonObjects(path).blocks():
            for number, line in enumerate(block.data.split(b"\n"), start=block.first + 1):
                if line.strip():
                    yield as_mapping(parse_json(line, f"{path}: object {number}")), done


def _read_inside(
    path: Path, head: Head, key: str, beside: dict[str, Any]
) -> Iterator[tuple[Row, float]]:
    if not is_split(as_mapping(head.first)):
        yield from _as_rows(stream_list(path, (key,), beside))
        return
    names = [str(each) for each in head.first[_COLUMNS]]
    for values, done in stream_list(path, (_DATA,), {}):
        if isinstance(values, list):
            yield dict(zip(names, values, strict=False)), done


def _as_rows(values: Iterator[tuple[Any, float]]) -> Iterator[tuple[Row, float]]:
    return ((value, done) for value, done in values if isinstance(value, dict))
