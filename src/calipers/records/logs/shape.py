"""Logs whose rows are records under other names: their reader is a table of paths.

A place is a path, or alternatives such as `summary.usage | usage`, of which the first that exists
counts; a column may be named by the whole path. `latency * 1000` multiplies. Cells may hold JSON.
The rows may be in a file of any format that tools export: lines, a list, a list inside an object,
CSV or Parquet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.records.batch import Source
from calipers.records.fields import FIELDS, Kind, find_field, name_finish_reason
from calipers.records.logs.log import LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    OURS,
    as_list,
    as_mapping,
    as_truth,
    find_last_said,
    format_text,
    list_objects,
    parse_json,
    read_json_lines,
    read_text,
)
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.joins import iterate_rows, parse_cell
from calipers.records.readers.json_documents import JsonObjects, stream_list
from calipers.records.readers.sniff import Head, find_suffix, read_head
from calipers.records.readers.tables import Parquet

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
        return _DATA if matches([str(column) for column in found[_COLUMNS]]) else None
    if matches(found):
        return ""
    for name in [key] if key else found:
        rows = as_list(found.get(name))
        if rows and matches(as_mapping(rows[0])):
            return name
    return None


def is_split(document: Row) -> bool:
    """Return True if an object is a table of pandas: its columns, and its rows as lists."""
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
    names = [str(column) for column in head.first[_COLUMNS]]
    for values, done in stream_list(path, (_DATA,), {}):
        if isinstance(values, list):
            yield dict(zip(names, values, strict=False)), done


def _as_rows(values: Iterator[tuple[Any, float]]) -> Iterator[tuple[Row, float]]:
    return ((value, done) for value, done in values if isinstance(value, dict))


_SCORE_NAMES = ("name", "key", "metric", "metric_name", "assessment_name", "evaluator")
_SCORE_VALUES = (
    *("value", "score", "avg", "mean", "numeric_value", "number_value"),
    *("feedback.value", "string_value", "label"),
)
_UNNAMED = re.compile(r"\W+")
_WORD = 2  # letters of a text that says yes or no


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a tool's rows become records, and by which keys such a row is recognized."""

    name: str
    has: str  # keys that every row has: `a b | a c` if either will do
    tells: Callable[[Row], bool] | None = None  # what else a row must have
    fields: Mapping[str, str] = field(default_factory=dict)  # the place of each
    scores: str = ""  # places of scores: an object of them, or a list with a name and a value each
    score_columns: str = ""  # the pattern of columns that are scores; its group is the name
    expected: Callable[[Row], Collection[str]] = lambda _: ()  # names that are no scores
    rows: str = ""  # the key of the list in a document, where several lists could be it
    shared: Mapping[str, str] = field(default_factory=dict)  # places before that list, of all rows
    more: Callable[[Row], Record] = lambda _: {}  # fields that no place gives
    counts: Callable[[Row], bool] = lambda _: True  # whether a row is a record
    left_out: str = ""  # the notice about rows that are not
    left_behind: tuple[str, ...] = ()  # columns that are too large to be kept
    in_folders: tuple[str, ...] = ()

    def matches(self, keys: Collection[str]) -> bool:
        """Return True if a row, or a table with these columns, is of this tool."""
        if not any(set(keys_of_row.split()) <= set(keys) for keys_of_row in self.has.split("|")):
            return False
        return self.tells(keys) if self.tells and isinstance(keys, Mapping) else True

    def fits(self, document: Any) -> bool:
        """Return True if a JSON, of a file or its first line, is of this tool."""
        return find_rows(document, self.rows, self.matches) is not None

    def records(self, path: Path, _: Collection[str]) -> Iterator[LogRecord]:
        """Yield the records of a file: JSON, JSON lines, CSV or Parquet."""
        beside: dict[str, Any] = {}
        shared: Record | None = None
        for row, done in read_rows(path, self.rows, self.matches, beside):
            if shared is None:
                shared = {name: _read_field(name, beside, at) for name, at in self.shared.items()}
            yield (shared | self.read_row(row) if self.counts(row) else None), done

    def read_row(self, row: Row) -> Record:
        """Return the record of one row."""
        given = {name: _read_field(name, row, places) for name, places in self.fields.items()}
        return {
            **{
                name: value
                for name, value in row.items()
                if name not in self.left_behind and _is_kept(name, value)
            },
            **{name: value for name, value in given.items() if value is not None},
            **self._read_scores(row),
            **{name: value for name, value in self.more(row).items() if value is not None},
        }

    def _read_scores(self, row: Row) -> Record:
        found: Record = {}
        for place in filter(None, map(str.strip, self.scores.split("|"))):
            found |= _list_scores(find_value(row, place))
        if self.score_columns:
            for column, value in row.items():
                if (match := re.fullmatch(self.score_columns, column)) is not None:
                    found[match["name"]] = read_score(value)
        expected = self.expected(row)
        return name_scores({name: value for name, value in found.items() if name not in expected})

    def make_reader(self) -> LogReader:
        """Return the log reader of this shape."""
        return LogReader(
            name=self.name,
            fits=self.fits,
            records=self.records,
            tables=lambda columns: self.tells is None and self.matches(columns),
            left_out=self.left_out,
            in_folders=self.in_folders,
        )


def find_value(row: Any, places: str) -> Any:
    """Return the value at the first of the places that has one, or None."""
    for place in places.split("|"):
        path, _, factor = place.strip().partition(" * ")
        value = _walk_path(row, path)
        if value is not None and value != "":
            number = read_number(value) if factor else None
            if not factor or number is not None:
                return value if number is None else number * float(factor)
    return None


def _walk_path(value: Any, path: str) -> Any:
    value = parse_cell(value)
    if isinstance(value, list):
        first, _, rest = path.partition(".")
        inside = value[int(first)] if first.isdecimal() and int(first) < len(value) else None
        return _walk_path(inside, rest) if rest else parse_cell(inside)
    if not isinstance(value, dict):
        return None
    if path in value:
        return parse_cell(value[path])
    dots = (place for place, letter in enumerate(path) if letter == ".")
    inside = (_walk_path(value[path[:dot]], path[dot + 1 :]) for dot in dots if path[:dot] in value)
    return next((part for part in inside if part is not None), None)


def read_number(value: Any) -> float | None:
    """Return a finite number, which tables may hold as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def sum_numbers(rows: Iterable[Any], places: str) -> float | None:
    """Return the sum of the numbers that are at the places of rows; None without any."""
    found = (read_number(find_value(row, places)) for row in rows)
    known = [number for number in found if number is not None]
    return sum(known) if known else None


def make_duration_fields(seconds: float | None) -> Record:
    """Return how long a case took, which is its duration and its latency; nothing if not known."""
    if seconds is None:
        return {}
    return {"duration_seconds": max(0.0, seconds), "latency_ms": max(0.0, seconds) * 1000}


def read_score(value: Any) -> Any:
    """Return a score: a number, or true or false for a word that says so; other texts as they are.

    >>> [read_score(each) for each in (1, "0.5", "yes", "Fail", "unsure", [1])]
    [1, 0.5, True, False, 'unsure', None]
    """
    if isinstance(value, bool) or (isinstance(value, int | float) and isfinite(value)):
        return value
    if not isinstance(value, str) or not value.strip():
        return None
    number = read_number(value)
    truth = as_truth(value) if len(value.strip()) >= _WORD else None
    return next((reading for reading in (number, truth) if reading is not None), value)


def name_scores(scores: Mapping[str, Any]) -> Record:
    """Return each score as a field `score_NAME`, its name in letters, digits and `_`.

    A name of which nothing would be left, or that would take another's place, stays as it is.

    >>> name_scores({"a b": 0.6, "a_b": 0.7, "*": 0.1, "Answer Relevancy": 1.0})
    {'score_a b': 0.6, 'score_a_b': 0.7, 'score_*': 0.1, 'score_Answer_Relevancy': 1.0}
    """
    plain = {name: _UNNAMED.sub("_", name).strip("_") for name in scores}
    shared = Counter(plain.values())
    return {
        f"score_{short if short and (short == name or shared[short] == 1) else name}": scores[name]
        for name, short in plain.items()
        if scores[name] is not None
    }


def _list_scores(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return scores by name, from an object of them or from a list of named ones."""
    scores: dict[str, Any] = {}
    if isinstance(value, dict):
        for name, score in value.items():
            inside = parse_cell(score)
            told = read_score(_find_score_value(inside)) if isinstance(inside, dict) else None
            if told is not None:
                scores[f"{prefix}{name}"] = told
            elif isinstance(inside, dict):
                scores |= _list_scores(inside, f"{prefix}{name}_")
            elif isinstance(inside, list):
                scores[f"{prefix}{name}"] = _average(inside)
            else:
                scores[f"{prefix}{name}"] = read_score(inside)
    for score in list_objects(value):
        name = next((read_text(score[key]) for key in _SCORE_NAMES if score.get(key)), None)
        if name is not None:
            scores[name] = read_score(_find_score_value(score))
    return scores


def _find_score_value(score: Any) -> Any:
    return next(
        (known for key in _SCORE_VALUES if (known := find_value(score, key)) is not None), None
    )


def _average(values: list[Any]) -> float | None:
    numbers = [
        float(number) for number in map(read_score, values) if isinstance(number, int | float)
    ]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _read_field(name: str, row: Row, places: str) -> Any:
    value = find_value(row, places)
    field = find_field(name)
    if value is not None and field.role is not None:
        return find_last_said(value, field.role)
    read = _BY_NAME.get(name) or _BY_KIND.get(field.kind)
    return value if value is None or read is None else read(value)


def _read_texts(value: Any) -> Any:
    texts = [text for text in map(read_text, as_list(value)) if text]
    return (texts or None) if isinstance(value, list) else format_text(value)


def _read_error(value: Any) -> str | None:
    return read_text(as_mapping(value).get("message")) or (format_text(value) if value else None)


def _read_names(value: Any) -> list[str] | None:
    return [name for name in as_list(value) if isinstance(name, str)] or None


_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "finish_reason": name_finish_reason,
    "tags": _read_names,
}
_BY_KIND: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: read_number,
    Kind.BOOLEAN: as_truth,
    Kind.TEXT: format_text,
    Kind.TEXTS: _read_texts,
    Kind.NAMES: _read_names,
    Kind.ANY: _read_error,
}


def _is_kept(name: str, value: Any) -> bool:
    """Return True if a row's own column is kept under its name: ours hold only what they can."""
    if value is None or value == "":
        return False
    if name not in OURS:
        return True
    kind = FIELDS[name].kind if name in FIELDS else Kind.NESTED
    if kind is Kind.TEXTS and isinstance(value, list):
        return all(isinstance(text, str) for text in value)
    if kind is Kind.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is Kind.BOOLEAN:
        return isinstance(value, bool)
    return kind in (Kind.TEXT, Kind.SCALAR, Kind.TEXTS) and isinstance(value, str | int | float)
