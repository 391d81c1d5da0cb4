"""Rows as Python values to checked columns: slow, exact, and the authority on what is wrong.

The fast readers pass a block to this module whenever anything in it is unusual, so that every
message names the row and the field, and no value is altered by a faster parser.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any

import polars as pl

from calipers.records.batch import BadRow, Batch, Wanted, find_type
from calipers.records.completing import complete_row, list_derived
from calipers.records.fields import (
    FIELDS,
    PROB_CORRECT,
    BadValue,
    Field,
    Kind,
    Number,
    find_field,
    is_null,
    keep_first,
)
from calipers.records.judgment_shape import read_judgments
from calipers.records.paths import look_up
from calipers.records.trace_shape import read_tool_map, read_trace
from calipers.records.usage import read_usage
from calipers.support.late import is_numpy_scalar
from calipers.support.quick_dataclasses import dataclass

Numbered = tuple[int, str, "Mapping[str, Any] | BadValue"]
BOM = b"\xef\xbb\xbf"


def check_rows(
    rows: Iterable[Numbered], wanted: Wanted, source: str, scalars: Mapping[str, pl.DataType]
) -> Batch:
    """Return numbered rows (row, text, fields or what is wrong) as a batch."""
    readers = [
        (name, wanted.get_name(name), make_reader(name, wanted, scalars)) for name in wanted.fields
    ]
    derived = list_derived(wanted)
    columns: dict[str, list[Any]] = {name: [] for name in wanted.fields}
    bad: list[BadRow] = []
    numbers: list[int] = []
    for number, text, row in rows:
        try:
            if isinstance(row, BadValue):
                raise row
            whole = complete_row(row, derived)
            values = [_read_value(whole, theirs, reader) for _, theirs, reader in readers]
        except BadValue as problem:
            bad.append(BadRow(source=source, row=number, problem=str(problem), content=text))
            continue
        numbers.append(number)
        for (name, _, _), value in zip(readers, values, strict=True):
            columns[name].append(value)
    schema = {name: find_type(name, scalars) for name in wanted.fields}
    return Batch(pl.DataFrame(columns, schema=schema), tuple(bad), numbers)


class _ScalarReader:
    """A field of any scalar, once the first rows have shown which type it has."""

    def __init__(self, name: str, dtype: pl.DataType) -> None:
        text = Kind.TEXT if name in FIELDS else Kind.ANY  # fields of the user's own may be nested
        kinds = {pl.Boolean(): Kind.BOOLEAN, pl.Float64(): Kind.NUMBER, pl.String(): text}
        self._dtype = dtype
        self._field = Field(name, kinds[dtype])

    def read(self, value: Any) -> Any:
        try:
            return self._field.read(value)
        except BadValue:
            if _SCALAR_TYPES[_classify(value)] == self._dtype:
                raise
            shown = str(value) if isinstance(value, Number) else repr(value)
            raise BadValue(f"{shown} is of another type than in the rows before") from None


@dataclass(frozen=True)
class _InsideReader:
    """A nested field, looked into."""

    name: str

    def read(self, value: Any) -> Any:
        text = FIELDS[self.name].read(value)
        if text is not None:
            _INSIDE[self.name](value)
        return text


_INSIDE: Mapping[str, Callable[[Any], object]] = {
    "judgments": read_judgments,
    "optimal_tools": read_tool_map,
    "trace": read_trace,
    "usage": read_usage,
}


def check_field(name: str, value: Any) -> None:
    """Refuse, as a reader of records does, what a field of the record cannot hold: BadValue."""
    if name in FIELDS:
        (_InsideReader(name) if name in _INSIDE else FIELDS[name]).read(value)


Reader = Field | _ScalarReader | _InsideReader


def make_reader(
    name: str, wanted: Wanted, scalars: Mapping[str, pl.DataType] | None = None
) -> Reader:
    """Return the function that reads one value of a field; it raises BadValue if refused."""
    if name in _INSIDE and name not in wanted.as_is:
        return _InsideReader(name)
    if scalars and name in scalars:
        return _ScalarReader(name, scalars[name])
    return find_field(name)


def _read_value(row: Mapping[str, Any], theirs: str, reader: Reader) -> Any:
    try:
        value = reader.read(look_up(row, theirs))
    except BadValue as problem:
        raise BadValue(f"{theirs}: {problem}") from None
    if isinstance(value, str) and not value.isascii():
        # A lone surrogate is legal in JSON and in no UTF-8 column.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def find_scalar_types(rows: Sequence[Mapping[str, Any]], wanted: Wanted) -> dict[str, pl.DataType]:
    """Return the type of each wanted field of any scalar in these rows: boolean, number or text."""
    types: dict[str, pl.DataType] = {}
    for name in wanted.fields:
        if find_field(name).kind is Kind.SCALAR:
            values = (look_up(row, wanted.get_name(name)) for row in rows)
            kinds = {_classify(value) for value in values if not is_null(value)}
            types[name] = _SCALAR_TYPES[kinds.pop()] if len(kinds) == 1 else pl.String()
            if name in wanted.numbers and types[name] != pl.Boolean:
                types[name] = pl.Float64()
    return types


def select_telling(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that show a field, or a type of one, that no row before did."""
    seen: set[tuple[str, type]] = set()
    for row in rows:
        shown = {(name, _classify(each)) for name, each in row.items() if not is_null(each)}
        if isinstance(several := row.get(PROB_CORRECT), Mapping):
            shown |= {(f"{PROB_CORRECT}.{name}", float) for name in several}
        if not shown <= seen:
            seen |= shown
            yield row


def classify_scalar(value: Any) -> type | None:
    """Return bool, float or str, as columns of any scalar tell values apart; None for a null."""
    return None if is_null(value) else _classify(value)


def _classify(value: Any) -> type:
    if is_numpy_scalar(value):
        value = value.item()
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, Number | int | float) else str


_SCALAR_TYPES: dict[type, pl.DataType] = {bool: pl.Boolean(), float: pl.Float64(), str: pl.String()}


def read_rows(data: bytes, first_line: int) -> Iterator[Numbered]:
    """Yield each line with its number: its fields, or what is wrong with it; blank ones skipped."""
    if first_line == 1:
        data = data.removeprefix(BOM)
    for number, line in enumerate(data.split(b"\n"), start=first_line):
        if line.strip():
            yield number, *load_row(line)


def load_row(line: bytes) -> tuple[str, Mapping[str, Any] | BadValue]:
    """Return a line's text, and its fields with numbers as written, or what is wrong with it."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        shown = line.decode(errors="replace")
        return shown, BadValue(f"invalid UTF-8 at byte {error.start + 1} of the line")
    try:
        row = _DECODE(text)
    except json.JSONDecodeError as error:
        said = "a byte order mark" if text.startswith("\ufeff") else error.msg.removesuffix(" at")
        return text, BadValue(f"not JSON: {said} at column {error.colno}")
    except RecursionError:
        return text, BadValue("not JSON: nested too deep")
    if isinstance(row, dict):
        return text, row
    return text, BadValue("a JSON value, not an object with fields")


def read_objects(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are JSON objects, without checking them."""
    from pydantic_core import from_json  # noqa: PLC0415 (slow to load)

    for line in data.split(b"\n"):
        try:
            row = from_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _read_constant(name: str) -> Number | float:
    return nan if name == "NaN" else Number(name)


_DECODE = json.JSONDecoder(
    parse_float=Number,
    parse_int=Number,
    parse_constant=_read_constant,
    object_pairs_hook=keep_first,
).decode
