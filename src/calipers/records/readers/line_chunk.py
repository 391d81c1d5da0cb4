"""A block of JSON lines to columns, fast and exact.

The native library, where there is one, reads a block of usual lines in a third of the time that
Polars takes, and copies nothing but the wanted texts; any other block is read by Polars in one
call. Where that fails, or would bend a value (a number such as `1e3` in a text field must keep its
spelling), the block is read again row by row.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from threading import RLock
from typing import Any

import polars as pl

from calipers.records.batch import (
    CHECK,
    Batch,
    UnusualRows,
    Wanted,
    find_type,
    merge_structs,
    read_struct,
    select_column,
)
from calipers.records.derived_fields import (
    MAYBE_UNESCAPED,
    PASSAGE_NAMES,
    PASSAGES,
    SYNONYMS,
    TRACE,
    TRACE_PARTS,
    complete_lines,
    list_derived,
    list_source_names,
)
from calipers.records.fields import (
    FIELDS,
    PROB_CORRECT,
    USUAL_NAMES,
    Field,
    Kind,
    find_field,
)
from calipers.records.nested_fields import TRACE_TYPE
from calipers.records.readers.bytestream import Block
from calipers.records.rows import Seen, check_rows, read_numbered_lines, read_objects
from calipers.support.field_paths import split_path, split_root
from calipers.support.native import ArrowArray, ArrowSchema, open_library


class Content(IntEnum):
    """What may stand under a key; `Kind` in native/src/json_lines.rs, in its order."""

    NOTHING = 0  # not even null
    NULL = 1
    TEXT = 2  # a number or boolean as it is written
    NUMBER = 3
    BOOLEAN = 4
    ANY = 5  # a text, or the rest as it is written


class _Key(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_size_t), ("kind", ctypes.c_size_t))


class _Columns:
    """Columns on their way from the library to Polars, which takes them over."""

    def __init__(self) -> None:
        self.array, self.schema = ArrowArray(), ArrowSchema()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        del requested_schema
        return _wrap(self.schema, b"arrow_schema"), _wrap(self.array, b"arrow_array")

    def release(self) -> None:
        for struct in (self.array, self.schema):
            if struct.release:
                struct.release(ctypes.addressof(struct))


def list_keys(wanted: Wanted, scalars: Mapping[str, pl.DataType]) -> dict[str, Content]:
    """Return the keys of the wanted fields, and those that must not be there.

    These are the names under which a field may be given in another way, or as a part of an object.
    """
    keys: dict[str, Content] = {}
    others = [*list_source_names(wanted)]
    passages = PASSAGE_NAMES if PASSAGES in list_derived(wanted) else ()
    for name in wanted.fields:
        theirs = wanted.get_name(name)
        root, inside = split_root(theirs)
        others += [theirs] if theirs in keys else []
        others += [root] if inside else []
        keys[theirs] = _find_content(name, scalars)
    as_written = {name: Content.ANY for name in passages if name not in keys}
    return {**keys, **dict.fromkeys(others, Content.NOTHING), **as_written}


def _find_content(name: str, scalars: Mapping[str, pl.DataType]) -> Content:
    kind, dtype = find_field(name).kind, find_type(name, scalars)
    if kind in (Kind.NAMES, Kind.NESTED):
        return Content.NULL
    if kind is Kind.ITEMS:
        return Content.ANY
    if dtype in (pl.Float64, pl.Boolean):
        return Content.NUMBER if dtype == pl.Float64 else Content.BOOLEAN
    return Content.TEXT if dtype == pl.String else Content.NULL


def read_natively(data: bytes, keys: Mapping[str, Content]) -> pl.DataFrame | None:
    """Return a column for each key that has values; None where the library does not read the lines.

    None also where no key has a value.
    """
    library = open_library()
    if library is None:
        return None
    names = [*keys]
    written = [name.encode(errors="surrogatepass") for name in names]
    described = zip(written, map(len, written), keys.values(), strict=True)
    wanted = (_Key * len(names))(*(_Key(*key) for key in described))
    columns = _Columns()
    pointers = ctypes.addressof(columns.array), ctypes.addressof(columns.schema)
    if library.calipers_read_lines(data, len(data), wanted, len(names), *pointers):
        return None
    try:
        table = pl.Series(columns).struct.unnest() if columns.array.n_children else None
    finally:
        columns.release()
    return None if table is None else table.rename(lambda place: names[int(place)])


# The bits of `find_new_line` in native/src/json_lines.rs.
_KIND_BITS: dict[type, int] = {bool: 1, float: 2, int: 4, str: 8}
_MOST_STOPS = 500  # at lines of a block; where more are unusual, all are read here


def read_unfamiliar_objects(data: bytes, seen: Seen) -> Iterator[Mapping[str, Any]]:
    """Yield the lines that are JSON objects and may have a field or kind of value not seen so far.

    The caller adds to `seen` what each line shows before it asks for the next one. The native
    library passes over the lines that show nothing new.
    """
    library, start = open_library(), 0
    for _ in range(_MOST_STOPS if library is not None else 0):
        assert library is not None
        keys = _describe_seen(seen)
        start = library.calipers_find_new_line(data, len(data), start, keys, len(keys))
        if start < 0:
            return
        end = data.find(b"\n", start) + 1 or len(data)
        yield from read_objects(data[start:end])
        start = end
    yield from read_objects(data[start:])


def _describe_seen(seen: Seen) -> ctypes.Array[_Key]:
    bits: dict[str, int] = {}
    for name, kind in seen:
        bits[name] = bits.get(name, 0) | _KIND_BITS[kind]
    if PROB_CORRECT in bits:
        bits[PROB_CORRECT] &= ~_KIND_BITS[str]  # an object of confidences may have other names
    written = [name.encode(errors="surrogatepass") for name in bits]
    described = zip(written, map(len, written), bits.values(), strict=True)
    return (_Key * len(bits))(*(_Key(*key) for key in described))


def _wrap(struct: ctypes.Structure, name: bytes) -> Any:
    """Return a capsule; it frees nothing, which `release` does where Polars has not."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(struct), name, None)


_MAYBE_NOT_TEXT = r"^(?:-?[0-9]+(?:\.[0-9]+)?$|[\[{])"  # as Polars would write it
LONG_TEXTS = tuple(f.name for f in FIELDS.values() if f.is_long and f.kind is Kind.TEXT)
_WIDE_WHOLE = "Static("  # what a whole number beyond 64 bits becomes in a categorical column
_NESTED = (Kind.NESTED, Kind.ANY, Kind.ITEMS)
_OBJECTS = (Kind.NESTED, Kind.ITEMS)
_UNESCAPED = re.compile(rb"\\(?:[\\bft]|u00[01]|u005[cC])")
# Half of a surrogate pair is legal in JSON and in no UTF-8 column: Polars writes NUL for it.
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
# An escape in a key of an object, which Polars loses as it writes the object as text.
_ESCAPED_KEY = re.compile(rb'\\["nr/](?:[^"\\]|\\.){0,999}"\s*:')
_LONG_LINE = RLock()
_STRETCH = 1 << 20
_MARKS = (b",", b"[", b"{")  # there is one before every value but the first
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
        if (frame := self._read_natively()) is not None:
            return frame
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
        frame = read_natively(self._data, list_keys(self.wanted, self.scalars))
        if frame is None:
            return None
        columns, checks = {}, {}
        for name in self.wanted.fields:
            theirs, dtype = self.wanted.get_name(name), self._type(name)
            is_there = theirs in frame.columns
            columns[name] = select_column(theirs) if is_there else pl.lit(None, dtype)
            if name == PASSAGES and name in list_derived(self.wanted):
                others = (name for name in PASSAGE_NAMES if name in frame.columns)
                columns[name] = pl.coalesce(columns[name], *others)
            if is_there and dtype == pl.Float64:
                checks[f"{CHECK}{name}"] = find_field(name).mark_outside(columns[name]).any()
        return frame.lazy().select(**columns, **checks)

    def _place(self, theirs: str, dtype: Any) -> tuple[str, Any, pl.Expr]:
        """Return the key to read a name from, as which type, and where its value is in that."""
        key, inside = split_root(theirs)
        if not inside or not any(spelling in self._data for spelling in _list_spellings(key)):
            return theirs, dtype, select_column(theirs)
        if any(isinstance(step, int) for step in split_path(theirs)):
            raise UnusualRows  # Polars would need to know what all elements of the list are
        is_whole = key in self.wanted.fields and key != self.wanted.get_name(PROB_CORRECT)
        if is_whole or any(spelling in self._data for spelling in _list_spellings(theirs)):
            raise UnusualRows  # the name itself may be there too, or all of the object be wanted
        return read_struct(theirs, dtype)

    def _has_names(self, theirs: str) -> bool:
        """Return True if values are wanted that have names in an object which this key holds."""
        others = map(self.wanted.get_name, self.wanted.fields)
        are_wanted = any(name.startswith(f"{theirs}.") for name in others)
        return are_wanted and any(spelling in self._data for spelling in _list_spellings(theirs))

    def _list_inputs(self) -> list[str]:
        """Return the names in the data under which rows may give wanted fields in another way.

        Where none is, synonyms are read beside the fields, which is quicker than to look for them.
        """
        read = {TRACE, *self._list_synonyms()}
        absent = [name for name in list_source_names(self.wanted) if name not in read]
        if not any(f'"{name}"'.encode() in self._data for name in absent):
            return []
        named = (column for column in list_source_names(self.wanted) if column != TRACE)
        return [name for name in named if f'"{name}"'.encode() in self._data]

    def _list_synonyms(self) -> list[str]:
        """Return the other names of wanted fields, but for those wanted for themselves."""
        own = {split_root(self.wanted.get_name(name))[0] for name in self.wanted.fields}
        named = list_source_names(self.wanted)
        return [name for name in SYNONYMS.values() if name in named and name not in own]

    def _type(self, name: str) -> pl.DataType:
        # As a text, a trace would be parsed, written out, and parsed once more to be measured.
        return TRACE_TYPE if name == "trace" else find_type(name, self.scalars)

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Return True if no field may refuse a value and Polars turned none into a text."""
        for column in checks.iter_columns():
            name = column.name.removeprefix(CHECK)
            if column.any() and self._is_bent(name):
                return False
        return True

    def _is_bent(self, name: str) -> bool:
        """Return True if a value of the field that looks unusual is not what was written."""
        kind = find_field(name).kind
        if kind in (Kind.NUMBER, Kind.NAMES) or self.scalars.get(name) == pl.Float64:
            return True
        bent = _UNESCAPED if kind in _NESTED else _match_respelled(self.wanted.get_name(name))
        return bool(bent.search(self._data) or _HALF_PAIR.search(self._data))

    def _has_nested(self) -> bool:
        fields = [name for name in self.wanted.fields if find_field(name).kind in _OBJECTS]
        nested = [*fields, *(TRACE_PARTS if TRACE in fields else ())]
        return any(json.dumps(self.wanted.get_name(name)).encode() in self._data for name in nested)

    def exact(self) -> Batch:
        """Return the rows, read one by one."""
        with self._lock():
            rows = read_numbered_lines(self._data, self.block.first + 1)
            return check_rows(rows, self.wanted, self.source, self.scalars)


def _has_long_line(data: bytes) -> bool:
    """Return True if there is a line of megabytes: one of two fills a stretch of one."""
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
    return maybe_bent if field.name in LONG_TEXTS else maybe_bent | _has_nul(column)


def _is_odd_string(text: pl.Expr) -> pl.Expr:
    """Return which texts, known to be JSON strings, are unusual."""
    return text.str.starts_with(_WIDE_WHOLE) | _has_nul(text)


def _has_nul(text: pl.Expr) -> pl.Expr:
    return text.str.contains("\0", literal=True)


def _list_spellings(key: str) -> tuple[bytes, ...]:
    """Return how a key may be written in JSON, in its quotes."""
    return json.dumps(key).encode(), json.dumps(key, ensure_ascii=False).encode()


@cache
def _match_respelled(key: str) -> re.Pattern[bytes]:
    """Return the pattern of a key with a value that Polars would respell."""
    inside = key.rpartition(".")[2]  # it may be a path
    spellings = {*_list_spellings(key), *_list_spellings(inside)}
    keys = b"|".join(map(re.escape, sorted(spellings)))
    return re.compile(rb"(?:%b)\s*:\s*(?:-?\d+[.eE]|-0|-?\d{19}|[\[{])" % keys)
