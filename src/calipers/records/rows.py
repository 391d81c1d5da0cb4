"""Rows as Python values to checked columns: slow, exact, and the authority on what is wrong.

The fast readers pass a block to this module whenever anything in it is unusual, so that every
message names the row and the field, and no value is altered by a faster parser. The type of a field
that may hold any scalar is settled here as well, from the kinds of values in all rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Literal
from weakref import WeakKeyDictionary

import polars as pl

from calipers.records.batch import BadRow, Batch, Source, Wanted, find_type
from calipers.records.derived_fields import complete_row, list_derived
from calipers.records.fields import (
    FIELDS,
    PROB_CORRECT,
    BadValue,
    Field,
    Kind,
    Number,
    OutsideRange,
    find_field,
    is_null,
    keep_first_key,
)
from calipers.records.nested_fields import (
    JUDGMENTS,
    drop_outside_scores,
    read_judgments,
    read_tool_map,
    read_trace,
    read_usage,
)
from calipers.support.field_paths import look_up, split_root
from calipers.support.lazy_numpy import is_numpy_scalar

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
    read = _read_values_inside if wanted.nulls_outside else _read_values
    for number, text, row in rows:
        nulled: list[str] = []  # what was wrong with values that became null
        try:
            if isinstance(row, BadValue):
                raise row
            values = read(row, derived, readers, nulled)
        except BadValue as problem:
            bad.append(BadRow(source=source, row=number, problem=str(problem), content=text))
            continue
        bad += (
            BadRow(source=source, row=number, problem=each, content=text, stays=True)
            for each in nulled
        )
        numbers.append(number)
        for (name, _, _), value in zip(readers, values, strict=True):
            columns[name].append(value)
    schema = {name: find_type(name, scalars) for name in wanted.fields}
    return Batch(pl.DataFrame(columns, schema=schema), tuple(bad), numbers)


_Readers = Sequence[tuple[str, str, "Reader"]]  # of each field, and what the data calls it


def _read_values(
    row: Mapping[str, Any], derived: Sequence[str], readers: _Readers, _: list[str]
) -> list[Any]:
    whole = complete_row(row, derived)
    return [_read_value(whole, theirs, reader) for _, theirs, reader in readers]


def _read_values_inside(
    row: Mapping[str, Any], derived: Sequence[str], readers: _Readers, nulled: list[str]
) -> list[Any]:
    """Return the values, null where a number is outside its range; `nulled` gets the problems."""
    whole = row
    for name in derived:
        try:
            whole = complete_row(whole, (name,))
        except OutsideRange as problem:
            nulled.append(str(problem))
    values: list[Any] = []
    for name, theirs, reader in readers:
        try:
            values.append(_read_value(whole, theirs, reader))
        except OutsideRange as problem:
            nulled.append(str(problem))
            values.append(read_inside(name, look_up(whole, theirs)))
    return values


def read_inside(name: str, value: Any) -> Any:
    """Return what is left of a value that has a number outside its range: of judgments the rest."""
    return drop_outside_scores(value) if name == JUDGMENTS else None


class _ScalarReader:
    """A field of any scalar, once it is settled which type it has."""

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
            raise BadValue(f"{shown} is of another type than in other rows") from None


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
        raise type(problem)(f"{theirs}: {problem}") from None
    if isinstance(value, str) and not value.isascii():
        # A lone surrogate is legal in JSON and in no UTF-8 column.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


Kinds = dict[str, set[type]]  # of the values in each field of any scalar: bool, float, str


def find_kinds(rows: Iterable[Mapping[str, Any]], wanted: Wanted) -> Kinds:
    """Return the kinds of values that these rows have in each wanted field of any scalar."""
    scalars = wanted.scalars
    kinds: Kinds = {name: set() for name in scalars}
    for row in rows:
        for name, theirs in scalars.items():
            if not is_null(value := look_up(row, theirs)):
                is_wide = name in wanted.keys and _is_wide(value)
                kinds[name].add(str if is_wide else _classify(value))
    return kinds


def choose_types(kinds: Kinds, wanted: Wanted) -> dict[str, pl.DataType]:
    """Return the type of each field: that of all its values, or text where they are of several.

    A field that is measured holds numbers, unless it holds nothing but booleans.
    """
    types: dict[str, pl.DataType] = {}
    for name, held in kinds.items():
        types[name] = _SCALAR_TYPES[next(iter(held))] if len(held) == 1 else pl.String()
        if name in wanted.numbers and types[name] != pl.Boolean:
            types[name] = pl.Float64()
    return types


def find_scalar_types(rows: Iterable[Mapping[str, Any]], wanted: Wanted) -> dict[str, pl.DataType]:
    """Return the type of each wanted field of any scalar in these rows: boolean, number or text."""
    return choose_types(find_kinds(rows, wanted), wanted)


def settle_types(sources: Sequence[Source], wanted: Wanted) -> Wanted:
    """Return what is wanted, each field with one type in all rows of all sources.

    What a field is depends neither on which rows come first nor on how they are cut into files.
    """
    if not wanted.scalars:
        return wanted
    known = [source.find_kinds(wanted) for source in sources if hasattr(source, "find_kinds")]
    if len(known) < len(sources):
        return wanted
    kinds = {
        name: set[type]().union(*(kinds[name] for kinds in known))
        for name in wanted.scalars
        if all(name in kinds for kinds in known)  # Spark does not know all before it reads
    }
    return replace(wanted, types=choose_types(kinds, wanted))


EXACT_WHOLE = 2**53  # from here on doubles skip whole numbers, and would make two groups one


def _is_wide(value: Any) -> bool:
    """Return True if a value is a whole number that a double does not hold."""
    if isinstance(value, Number):
        return value.lstrip("-").isdecimal() and abs(int(value)) >= EXACT_WHOLE
    return isinstance(value, int) and abs(value) >= EXACT_WHOLE


Seen = set[tuple[str, type]]
"""The kinds of values that fields have: bool, float, str; int too, where doubles do not hold it."""


def select_informative_rows(
    rows: Iterable[Mapping[str, Any]], seen: Seen | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that show a field, or a kind of value, that is not among those seen so far."""
    seen = set() if seen is None else seen
    for row in rows:
        known = {name: value for name, value in row.items() if not is_null(value)}
        shown = {(name, _classify(value)) for name, value in known.items()}
        shown |= {(name, int) for name, value in known.items() if _is_wide(value)}
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


def read_numbered_lines(data: bytes, first_line: int) -> Iterator[Numbered]:
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
        problem = (
            "a byte order mark" if text.startswith("\ufeff") else error.msg.removesuffix(" at")
        )
        return text, BadValue(f"not JSON: {problem} at column {error.colno}")
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
    object_pairs_hook=keep_first_key,
).decode


Holds = Literal["numbers", "booleans", "text"]

# Of the rows that a source has read so far: several plans ask for the same.
_classified: WeakKeyDictionary[Source, tuple[Any, dict[str, set[Holds]]]] = WeakKeyDictionary()
_DEEPEST = 6  # objects in each other that are looked into through lists
_HOLDS: dict[type, Holds] = {float: "numbers", bool: "booleans", str: "text"}


def list_field_kinds(source: Source) -> dict[str, set[Holds]]:
    """Return the source's fields and the kinds of values in each; nested ones by their paths.

    A field without a value so far has no kind; a source without known rows has no fields here.
    """
    if hasattr(source, "read_first_rows"):
        rows = source.read_first_rows()
        known, field_kinds = _classified.get(source, (None, {}))
        if known is not rows:
            field_kinds = _classify_rows(rows)
            _classified[source] = rows, field_kinds
        return field_kinds
    if hasattr(source, "schema"):
        return {name: {_classify_dtype(dtype)} for name, dtype in _walk_paths(source.schema())}
    return {}


def list_confidences(source: Source, field_map: Mapping[str, str]) -> list[str]:
    """Return the names under which the source's records state several confidences, sorted."""
    prefix = f"{field_map.get(PROB_CORRECT, PROB_CORRECT)}."
    fields = sorted(name for name in list_field_kinds(source) if name.startswith(prefix))
    return [name.removeprefix(prefix) for name in fields]


def _classify_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, set[Holds]]:
    # Rows have few types, and to classify a value takes longer than to look at its type.
    examples: dict[str, dict[type, Any]] = {}
    for row in rows:
        for name, value in _walk_paths(row):
            if not is_null(value):
                examples.setdefault(name, {})[type(value)] = value
            elif name not in examples:
                examples[name] = {}
    return {
        name: {_HOLDS[kind] for value in values.values() if (kind := classify_scalar(value))}
        for name, values in examples.items()
    }


def list_names(source: Source) -> list[str]:
    """Return what can be named in a source: its columns, and the paths into those that are nested.

    Of a list, only the first element is among them.
    """
    columns = source.columns()
    inside = (name for name in list_field_kinds(source) if split_root(name)[1])
    return list(dict.fromkeys((*columns, *sorted(inside))))


def _walk_paths(within: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a row, or the types of a schema, by their paths; of lists the first."""
    for name, value in within.items():
        path = f"{prefix}{name}"
        inside = dict(value) if isinstance(value, pl.Struct) else value
        if isinstance(inside, Mapping):
            yield from _walk_paths(inside, f"{path}.")
            continue
        yield path, value
        first: Any = value.inner if isinstance(value, pl.List) else None
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            first = value[0]
        if isinstance(first, pl.Struct | Mapping) and prefix.count(".") < _DEEPEST:
            yield from _walk_paths(dict(first), f"{path}[0].")


def _classify_dtype(dtype: pl.DataType) -> Holds:
    if dtype.is_numeric():
        return "numbers"
    return "booleans" if dtype == pl.Boolean else "text"
