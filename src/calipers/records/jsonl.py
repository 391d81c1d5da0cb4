"""JSON lines, fast and exact.

A block of usual lines is read by the native library, where there is one, any other by Polars in one
call. Where that call fails, or would bend a value (a number such as `1e3` in a text field must keep
its spelling), the block is read again row by row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property, partial
from io import BytesIO
from itertools import chain, islice
from math import nan
from pathlib import Path
from threading import RLock
from typing import IO, Any

import polars as pl

from calipers.records.batch import CHECK, Batch, Chunk, UnusualRows, Wanted, find_type
from calipers.records.bytestream import Block, decompress, read_blocks, stream_blocks
from calipers.records.completing import SYNONYMS, TRACE, TRACE_PARTS, list_inputs
from calipers.records.completing_lines import MAYBE_UNESCAPED, complete_lines
from calipers.records.fields import (
    PROB_CORRECT,
    USUAL_NAMES,
    BadValue,
    Field,
    Kind,
    Number,
    find_field,
)
from calipers.records.limits import Limits, get_limits
from calipers.records.native_lines import list_keys, read_natively
from calipers.records.paths import merge_structs, read_struct
from calipers.records.rows import Numbered, check_rows, find_scalar_types, select_telling
from calipers.records.trace_shape import AS_READ
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

_SNIFF_ROWS = 200
_QUICKLY_READ = 1 << 18  # bytes of a file
_MAYBE_NOT_TEXT = r"^(?:-?[0-9]+(?:\.[0-9]+)?$|[\[{])"  # as Polars would write it
_BOM = b"\xef\xbb\xbf"
_LONG_TEXTS = ("input", "cot")
_UNIQUE = "id"  # as many categories as rows would cost more than a look at each
_WIDE_WHOLE = "Static("  # what a whole number beyond 64 bits becomes in a categorical column
_NESTED = (Kind.NESTED, Kind.ANY)
_UNESCAPED = re.compile(rb"\\(?:[\\bft]|u00[01]|u005[cC])")
# Half of a surrogate pair is legal in JSON and in no UTF-8 column: Polars writes NUL for it.
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
# An escape in a key of an object, which Polars loses as it writes the object as text.
_ESCAPED_KEY = re.compile(rb'\\["nr/](?:[^"\\]|\\.){0,999}"\s*:')
# The start of an array of objects; a line such as `[INFO] started` is just a bad row.
_ARRAY = re.compile(rb"\s*\[\s*(?:\{|$)")
_LONG_LINE = RLock()
_STRETCH = 1 << 20
_MARKS = (b",", b"[", b"{")  # there is one before every value but the first
_DEEPEST = 8  # objects within objects whose fields are known before all is read
_DENSE = 1_000_000  # values in a block with a long line


@dataclass(frozen=True)
class JsonLinesChunk:
    """Some whole lines; holds no file of its own, so that a cluster's workers can use it too."""

    block: Block
    source: str
    wanted: Wanted
    scalars: Mapping[str, pl.DataType]
    strings: frozenset[str] = frozenset()  # text fields that hold nothing but JSON strings so far
    done: float = 0.0

    @property
    def _data(self) -> bytes:
        return self.block.data

    def lazy(self) -> pl.LazyFrame:
        """Return what the native library or Polars reads in one call."""
        if (found := self._read_natively()) is not None:
            return found
        with self._lock():
            return self._read()

    def _lock(self) -> AbstractContextManager[Any]:
        """Return a lock for a block of a very long line: several at once may fill the memory."""
        return _LONG_LINE if _has_long_line(self._data) else nullcontext()

    def _read(self) -> pl.LazyFrame:
        if not self._data or self._data.isspace():
            return self.exact().frame.lazy()
        if _has_long_line(self._data) and sum(map(self._data.count, _MARKS)) > _DENSE:
            raise UnusualRows  # a line of many small values: Polars would take a gigabyte for it
        if self._has_nested() and _ESCAPED_KEY.search(self._data):
            raise UnusualRows
        inputs = self._list_inputs()
        types = {name: self._type(name) for name in self.wanted.fields}
        # Polars refuses all but strings in a categorical column: that spares a check. Categories
        # of its own go with the block.
        columns, checks = {}, {}
        schema: dict[str, Any] = {}
        for name, dtype in types.items():
            read_as = pl.Categorical(pl.Categories.random()) if name in self.strings else dtype
            theirs, read_as, column = self._place(self.wanted.get_name(name), read_as)
            if name == PROB_CORRECT and self._has_names(theirs):
                columns[name] = pl.lit(None, dtype)  # an object: the fast way reads no other
                continue
            schema[theirs] = merge_structs(schema.get(theirs, read_as), read_as)
            columns[name] = column.cast(dtype)
            if name in self.strings:
                checks[f"{CHECK}{name}"] = _is_odd_string(column.unique().cast(dtype)).any()
            elif (check := _check(find_field(name), column, dtype)) is not None:
                checks[f"{CHECK}{name}"] = check.any()
        if not inputs:
            synonyms = self._list_synonyms()
            numbers = dict.fromkeys(synonyms, pl.Float64)
            frame = pl.read_ndjson(self._data, schema={**schema, **numbers})
            if not any(frame[name].count() for name in synonyms):
                return frame.lazy().select(**columns, **checks)
            inputs = synonyms
        return complete_lines(self._data, self.wanted, inputs, schema, columns, checks)

    def _read_natively(self) -> pl.LazyFrame | None:
        """Return what the native library reads, if it does: texts and numbers as `exact` would."""
        if _has_long_line(self._data):
            return None
        found = read_natively(self._data, list_keys(self.wanted, self.scalars))
        if found is None:
            return None
        columns, checks = {}, {}
        for name in self.wanted.fields:
            theirs, dtype = self.wanted.get_name(name), self._type(name)
            is_there = theirs in found.columns
            columns[name] = pl.col(theirs) if is_there else pl.lit(None, dtype)
            if is_there and dtype == pl.Float64:
                checks[f"{CHECK}{name}"] = find_field(name).mark_outside(columns[name]).any()
        return found.lazy().select(**columns, **checks)

    def _place(self, theirs: str, dtype: Any) -> tuple[str, Any, pl.Expr]:
        """Return the key to read a name from, as which type, and where its value is in that."""
        key, _, inside = theirs.partition(".")
        if not inside or not any(each in self._data for each in _list_spellings(key)):
            return theirs, dtype, pl.col(theirs)
        is_whole = key in self.wanted.fields and key != self.wanted.get_name(PROB_CORRECT)
        if is_whole or any(each in self._data for each in _list_spellings(theirs)):
            raise UnusualRows  # the name itself may be there too, or all of the object be wanted
        return read_struct(theirs, dtype)

    def _has_names(self, theirs: str) -> bool:
        """Say whether values are wanted that have names in an object which this key holds."""
        others = map(self.wanted.get_name, self.wanted.fields)
        are_wanted = any(name.startswith(f"{theirs}.") for name in others)
        return are_wanted and any(each in self._data for each in _list_spellings(theirs))

    def _list_inputs(self) -> list[str]:
        """Return the names in the data under which rows may give wanted fields in another way.

        Where none is, synonyms are read beside the fields, which is quicker than to look for them.
        """
        read = {TRACE, *self._list_synonyms()}
        found = [name for name in list_inputs(self.wanted) if name not in read]
        if not any(f'"{name}"'.encode() in self._data for name in found):
            return []
        named = (each for each in list_inputs(self.wanted) if each != TRACE)
        return [name for name in named if f'"{name}"'.encode() in self._data]

    def _list_synonyms(self) -> list[str]:
        """Return the other names of wanted fields, but for those wanted for themselves."""
        own = {self.wanted.get_name(name).partition(".")[0] for name in self.wanted.fields}
        named = list_inputs(self.wanted)
        return [name for name in SYNONYMS.values() if name in named and name not in own]

    def _type(self, name: str) -> pl.DataType:
        # As a text, a trace would be parsed, written out, and parsed once more to be measured.
        return AS_READ if name == "trace" else find_type(name, self.scalars)

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Say whether no field may refuse a value and Polars turned none into a text."""
        for column in checks.iter_columns():
            name = column.name.removeprefix(CHECK)
            if column.any() and self._is_bent(name):
                return False
        return True

    def _is_bent(self, name: str) -> bool:
        """Say whether a value of the field that looks unusual is not what was written."""
        kind = find_field(name).kind
        if kind in (Kind.NUMBER, Kind.NAMES) or self.scalars.get(name) == pl.Float64:
            return True
        bent = _UNESCAPED if kind in _NESTED else _match_respelled(self.wanted.get_name(name))
        return bool(bent.search(self._data) or _HALF_PAIR.search(self._data))

    def _has_nested(self) -> bool:
        fields = [name for name in self.wanted.fields if find_field(name).kind is Kind.NESTED]
        nested = [*fields, *(TRACE_PARTS if TRACE in fields else ())]
        return any(json.dumps(self.wanted.get_name(name)).encode() in self._data for name in nested)

    def exact(self) -> Batch:
        """Return the rows, read one by one."""
        with self._lock():
            rows = read_rows(self._data, self.block.first + 1)
            return check_rows(rows, self.wanted, self.source, self.scalars)


def _has_long_line(data: bytes) -> bool:
    """Say whether there is a line of megabytes: one of two fills a stretch of one."""
    starts = range(0, len(data) - _STRETCH + 1, _STRETCH)
    return any(data.find(b"\n", start, start + _STRETCH) < 0 for start in starts)


def _check(field: Field, column: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
    """Mark the rows that need a second look."""
    if field.kind is Kind.NUMBER or dtype == pl.Float64:
        return field.mark_outside(column)
    if field.kind is Kind.NAMES:
        return ~column.str.contains(USUAL_NAMES)
    if dtype != pl.String or field.kind is Kind.BOOLEAN:
        return None
    if field.kind in _NESTED:
        return column.str.contains(MAYBE_UNESCAPED)
    maybe_bent = column.str.contains(_MAYBE_NOT_TEXT)
    return maybe_bent if field.name in _LONG_TEXTS else maybe_bent | _has_nul(column)


def _is_odd_string(text: pl.Expr) -> pl.Expr:
    """Say which texts, known to be JSON strings, are unusual."""
    return text.str.starts_with(_WIDE_WHOLE) | _has_nul(text)


def _has_nul(text: pl.Expr) -> pl.Expr:
    return text.str.contains("\0", literal=True)


def _list_spellings(key: str) -> tuple[bytes, ...]:
    """Return how a key may be written in JSON, in its quotes."""
    return json.dumps(key).encode(), json.dumps(key, ensure_ascii=False).encode()


@cache
def _match_respelled(key: str) -> re.Pattern[bytes]:
    """Return the pattern of a key with a value that Polars would respell."""
    spellings = {
        *_list_spellings(key),
        *_list_spellings(key.rpartition(".")[2]),
    }  # it may be a path
    keys = b"|".join(map(re.escape, sorted(spellings)))
    return re.compile(rb"(?:%b)\s*:\s*(?:-?\d+[.eE]|-0|-?\d{19}|[\[{])" % keys)


def read_rows(data: bytes, first_line: int) -> Iterator[Numbered]:
    """Yield each line with its number: its fields, or what is wrong with it; blank ones skipped."""
    if first_line == 1:
        data = data.removeprefix(_BOM)
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
        row = _LOADS(text)
    except json.JSONDecodeError as error:
        return text, BadValue(f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}")
    except RecursionError:
        return text, BadValue("not JSON: nested too deep")
    if isinstance(row, dict):
        return text, row
    return text, BadValue("a JSON value, not an object with fields")


def _read_objects(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are JSON objects, without checking them."""
    from pydantic_core import from_json  # noqa: PLC0415 (slow to load)

    for line in data.split(b"\n"):
        try:
            row = from_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a mapping; the first of a repeated key counts, as in the fast path."""
    row = dict(pairs)
    return row if len(row) == len(pairs) else dict(reversed(pairs))


def _read_constant(name: str) -> Number | float:
    return nan if name == "NaN" else Number(name)


_LOADS = partial(
    json.loads,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_read_constant,
    object_pairs_hook=_keep_first,
)


def _is_all_strings(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows if row.get(key) is not None]
    return bool(values) and all(type(value) is str for value in values)


class JsonLines:
    """A file of JSON lines, plain or compressed."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path: str | None = str(path)
        self.name = name or str(path)
        self.limits: Limits = get_limits()

    def columns(self) -> list[str]:
        """Return the keys in the first rows."""
        return list(dict.fromkeys(chain.from_iterable(self._head)))

    @cached_property
    def shows_all_columns(self) -> bool:
        """Whether `columns` names the keys of all rows, as far as a quick look can tell."""
        if self.path is None or Path(self.path).stat().st_size > _QUICKLY_READ:
            return False
        keys = {*self.columns()}
        rows = (row for block, _ in self._blocks() for _, _, row in read_rows(block.data, 1))
        return all(not isinstance(row, BadValue) and row.keys() <= keys for row in rows)

    def read_first_rows(self) -> list[Mapping[str, Any]]:
        """Return the first rows, without what is inside their lists."""
        return self._head

    def look_through(self) -> None:
        """Read it all once for the fields and types that only later rows have."""
        rows = (row for block, _ in self._blocks() for row in _read_objects(block.data))
        self._head = [*self._head, *select_telling(rows)]

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the file in blocks of whole lines."""
        scalars = find_scalar_types(self._head, wanted)
        strings = frozenset(
            name
            for name in wanted.fields
            if find_field(name).kind is Kind.TEXT
            and name not in (*_LONG_TEXTS, _UNIQUE)
            and _is_all_strings(self._head, wanted.get_name(name))
        )
        for block, done in self._blocks():
            yield JsonLinesChunk(block, self.name, wanted, scalars, strings, done)

    def find_scalar_types(self, wanted: Wanted) -> dict[str, pl.DataType]:
        """Return the types that fields of any scalar have in the first rows."""
        return find_scalar_types(self._head, wanted)

    def blocks(self) -> Iterator[tuple[Block, float]]:
        """Yield blocks of whole lines, and the share of the file behind each."""
        return self._blocks()

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        assert self.path is not None
        return read_blocks(Path(self.path), self.limits)

    @cached_property
    def _head(self) -> list[Mapping[str, Any]]:
        """The first rows, parsed once for all that are told by them."""
        block, _ = next(iter(self._blocks()), (Block(b"", 0), 1.0))
        data = block.data
        if _ARRAY.match(data.removeprefix(_BOM)):
            raise DataError(
                f"{self.name}: a JSON array, not JSON lines (one object per line)",
                fix="write a line per record: jq -c '.[]' FILE > records.jsonl",
            )
        head = b"".join(islice(BytesIO(data), _SNIFF_ROWS))
        rows = (row for _, _, row in read_rows(head, 1))
        return [_outline(row) for row in rows if not isinstance(row, BadValue)]


def _outline(row: Mapping[str, Any], depth: int = _DEEPEST) -> Mapping[str, Any]:
    """Return the row without what is inside its lists, or very deep in objects, to be kept."""
    return {
        name: _outline(each, depth - 1)
        if isinstance(each, dict) and depth
        else ([] if isinstance(each, list | dict) else each)
        for name, each in row.items()
    }


class MadeLines(JsonLines):
    """JSON lines that are made of a file which holds the records in another shape."""

    @cached_property
    def shows_all_columns(self) -> bool:
        """Say no: all lines would have to be made for it."""
        return False

    def as_lines(self, wanted: Wanted) -> Iterator[str]:
        """Yield the lines themselves, for workers elsewhere."""
        del wanted
        for block, _ in self._blocks():
            yield from block.data.decode().removesuffix("\n").split("\n")


class PipedJsonLines(JsonLines):
    """JSON lines that arrive on standard input or a pipe; read once, never kept."""

    def __init__(self, stream: IO[bytes], name: str, *, is_ours: bool = False) -> None:
        self.path = None
        self.name = name
        self.limits = get_limits()
        self._ours = stream if is_ours else None  # to be closed
        self._stream = stream_blocks(decompress(stream, name), name)
        self._first = next(self._stream, None)

    def look_through(self) -> None:
        """Do nothing: a pipe can be read only once."""

    def _blocks(self) -> Iterator[tuple[Block, float]]:
        if self._first is not None:
            yield self._first, 0.0
        for block in self._stream:
            yield block, 0.0
        if self._ours is not None:
            self._ours.close()
