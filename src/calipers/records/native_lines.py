"""JSON lines to columns by the native library, where there is one and all lines are as usual.

It takes a third of the time that Polars takes, and copies nothing but the wanted texts. Texts and
numbers are those that `rows.read_rows` and the record's fields would give; a block with lines
of which that is not certain is left to the other readers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import polars as pl

from calipers.records.batch import Wanted, find_type
from calipers.records.completing import list_inputs
from calipers.records.fields import Kind, find_field
from calipers.support.native import ArrowArray, ArrowSchema, open_library


class Content(IntEnum):
    """What may stand under a key; `Kind` in native/src/json_lines.rs, in its order."""

    NOTHING = 0  # not even null
    NULL = 1
    TEXT = 2  # a number or boolean as it is written
    NUMBER = 3
    BOOLEAN = 4


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
        for each in (self.array, self.schema):
            if each.release:
                each.release(ctypes.addressof(each))


def list_keys(wanted: Wanted, scalars: Mapping[str, pl.DataType]) -> dict[str, Content]:
    """Return the keys of the wanted fields, and those that must not be there.

    These are the names under which a field may be given in another way, or as a part of an object.
    """
    keys: dict[str, Content] = {}
    others = [*list_inputs(wanted)]
    for name in wanted.fields:
        theirs = wanted.get_name(name)
        root, dot, _ = theirs.partition(".")
        others += [theirs] if theirs in keys else []
        others += [root] if dot else []
        keys[theirs] = _find_content(name, scalars)
    return keys | dict.fromkeys(others, Content.NOTHING)


def _find_content(name: str, scalars: Mapping[str, pl.DataType]) -> Content:
    kind, dtype = find_field(name).kind, find_type(name, scalars)
    if kind in (Kind.NAMES, Kind.NESTED):
        return Content.NULL
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
    wanted = (_Key * len(names))(*(_Key(*each) for each in described))
    columns = _Columns()
    pointers = ctypes.addressof(columns.array), ctypes.addressof(columns.schema)
    if library.calipers_read_lines(data, len(data), wanted, len(names), *pointers):
        return None
    try:
        found = pl.Series(columns).struct.unnest() if columns.array.n_children else None
    finally:
        columns.release()
    return None if found is None else found.rename(lambda place: names[int(place)])


def _wrap(each: ctypes.Structure, name: bytes) -> Any:
    """Return a capsule; it frees nothing, which `release` does where Polars has not."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(each), name, None)
