"""Logs whose rows are records under other names: their reader is a table of paths.

A place is a path, or alternatives such as `summary.usage | usage`, of which the first that exists
counts; a column may be named by the whole path. `latency * 1000` multiplies. Cells may hold JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from math import isfinite
from pathlib import Path
from typing import Any

from calipers.records.any_rows import parse_cell
from calipers.records.fields import FIELDS, Kind, find_field, name_finish_reason
from calipers.records.logs.conversations import ASSISTANT, USER, read_said
from calipers.records.logs.documents import find_rows, read_rows
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    OURS,
    as_list,
    as_mapping,
    as_truth,
    list_objects,
    read_text,
    spell,
)
from calipers.support.quick_dataclasses import dataclass

Row = Mapping[str, Any]

_NAMES = ("name", "key", "metric", "metric_name", "assessment_name", "evaluator")
_VALUES = (
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
    rows: str = ""  # the key of the list in a document, where several lists could be it
    shared: Mapping[str, str] = field(default_factory=dict)  # places before that list, of all rows
    more: Callable[[Row], Record] = lambda _: {}  # fields that no place gives
    counts: Callable[[Row], bool] = lambda _: True  # whether a row is a record
    left_out: str = ""  # the notice about rows that are not
    left_behind: tuple[str, ...] = ()  # columns that are too large to be kept
    in_folders: tuple[str, ...] = ()

    def matches(self, keys: Collection[str]) -> bool:
        """Say whether a row, or a table with these columns, is of this tool."""
        if not any(set(each.split()) <= set(keys) for each in self.has.split("|")):
            return False
        return self.tells(keys) if self.tells and isinstance(keys, Mapping) else True

    def fits(self, document: Any) -> bool:
        """Say whether a JSON, of a file or its first line, is of this tool."""
        return find_rows(document, self.rows, self.matches) is not None

    def records(self, path: Path, _: Collection[str]) -> Iterator[Found]:
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
            found |= _list_scores(look(row, place))
        if self.score_columns:
            for column, value in row.items():
                if (told := re.fullmatch(self.score_columns, column)) is not None:
                    found[told["name"]] = read_score(value)
        return name_scores(found)

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


def look(row: Any, places: str) -> Any:
    """Return the value at the first of the places that has one, or None."""
    for place in places.split("|"):
        path, _, factor = place.strip().partition(" * ")
        value = _walk(row, path)
        if value is not None and value != "":
            number = read_number(value) if factor else None
            if not factor or number is not None:
                return value if number is None else number * float(factor)
    return None


def _walk(value: Any, path: str) -> Any:
    value = parse_cell(value)
    if isinstance(value, list):
        first, _, rest = path.partition(".")
        inside = value[int(first)] if first.isdecimal() and int(first) < len(value) else None
        return _walk(inside, rest) if rest else parse_cell(inside)
    if not isinstance(value, dict):
        return None
    if path in value:
        return parse_cell(value[path])
    dots = (place for place, letter in enumerate(path) if letter == ".")
    inside = (_walk(value[path[:dot]], path[dot + 1 :]) for dot in dots if path[:dot] in value)
    return next((each for each in inside if each is not None), None)


def read_number(value: Any) -> float | None:
    """Return a finite number, which tables may hold as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def sum_numbers(rows: Iterable[Any], places: str) -> float | None:
    """Return the sum of the numbers that are at the places of rows; None without any."""
    found = (read_number(look(each, places)) for each in rows)
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def tell_seconds(seconds: float | None) -> Record:
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
    return next((each for each in (number, truth) if each is not None), value)


def name_scores(scores: Mapping[str, Any]) -> Record:
    """Return each score as a field `score_NAME`, its name in letters, digits and `_`."""
    named = {_UNNAMED.sub("_", name).strip("_"): each for name, each in scores.items()}
    return {f"score_{name}": each for name, each in named.items() if each is not None}


def _list_scores(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return scores by name, from an object of them or from a list of named ones."""
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for name, each in value.items():
            inside = parse_cell(each)
            told = read_score(_look_value(inside)) if isinstance(inside, dict) else None
            if told is not None:
                found[f"{prefix}{name}"] = told
            elif isinstance(inside, dict):
                found |= _list_scores(inside, f"{prefix}{name}_")
            elif isinstance(inside, list):
                found[f"{prefix}{name}"] = _average(inside)
            else:
                found[f"{prefix}{name}"] = read_score(inside)
    for each in list_objects(value):
        name = next((read_text(each[key]) for key in _NAMES if each.get(key)), None)
        if name is not None:
            found[name] = read_score(_look_value(each))
    return found


def _look_value(score: Any) -> Any:
    return next((each for key in _VALUES if (each := look(score, key)) is not None), None)


def _average(values: list[Any]) -> float | None:
    numbers = [float(each) for each in map(read_score, values) if isinstance(each, int | float)]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _read_field(name: str, row: Row, places: str) -> Any:
    value = look(row, places)
    read = _BY_NAME.get(name) or _BY_KIND.get(find_field(name).kind)
    return value if value is None or read is None else read(value)


def _read_reference(value: Any) -> Any:
    texts = [each for each in map(read_text, as_list(value)) if each]
    return (texts or None) if isinstance(value, list) else spell(value)


def _read_error(value: Any) -> str | None:
    return read_text(as_mapping(value).get("message")) or (spell(value) if value else None)


_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "input": lambda value: read_said(value, USER),
    "answer": lambda value: read_said(value, ASSISTANT),
    "cot": lambda value: read_said(value, ASSISTANT),
    "finish_reason": name_finish_reason,
    "reference": _read_reference,
    "tags": lambda value: [each for each in as_list(value) if isinstance(each, str)] or None,
    "error": _read_error,
}
_BY_KIND: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: read_number,
    Kind.BOOLEAN: as_truth,
    Kind.TEXT: spell,
    Kind.ANY: spell,
}


def _is_kept(name: str, value: Any) -> bool:
    """Say whether a row's own column is kept under its name: ours hold only what they can."""
    if value is None or value == "":
        return False
    if name not in OURS:
        return True
    kind = FIELDS[name].kind if name in FIELDS else Kind.NESTED
    if kind is Kind.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is Kind.BOOLEAN:
        return isinstance(value, bool)
    return kind in (Kind.TEXT, Kind.SCALAR, Kind.TEXTS) and isinstance(value, str | int | float)
