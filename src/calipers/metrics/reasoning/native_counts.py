"""Count in many texts with the native library.

It follows the rules that stand in Python to the letter, and leaves alone what it cannot: huge
numbers, and characters on which versions of Unicode differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from calipers.support.late import np
from calipers.support.native import ArrowArray, ArrowSchema, open_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

Counts: TypeAlias = "NDArray[np.int64]"

_STRING_VIEWS = b"vu"  # the name of Arrow's layout that the library reads
_VIEW_BYTES = 16


class _Stream(ctypes.Structure):
    """ArrowArrayStream, as far as it is called here."""

    _fields_ = tuple(
        (name, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(kind)))
        for name, kind in (("get_schema", ArrowSchema), ("get_next", ArrowArray))
    )


class _Buffer(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


def count_natively(function: str, texts: pl.Series, columns: int = 1) -> Counts | None:
    """Return the counts of each text, -1 for those that are left to Python.

    None where there is no library, where it is switched off, or cannot read the texts.
    """
    library = open_library()
    if library is None or texts.dtype != pl.String:
        return None
    count = getattr(library, f"calipers_{function}")
    parts = []
    for array in _export(texts.fill_null("") if texts.null_count() else texts):
        counts = np.empty((array.length, columns), dtype=np.int64)
        if count(*_describe(array), counts.ctypes.data):
            return None
        parts.append(counts)
    counted = np.concatenate(parts) if parts else np.empty((0, columns), dtype=np.int64)
    return counted if len(counted) == len(texts) else None


def count_each(
    function: str, texts: pl.Series, in_python: Callable[[pl.Series], pl.Series]
) -> pl.Series:
    """Return one count for each text, null for null; `in_python` counts what the library leaves."""
    counted = count_natively(function, texts)
    if counted is None:
        return in_python(texts)
    counts = counted[:, 0]
    left = counts < 0
    if left.any():
        counts[left] = in_python(texts.filter(pl.Series(left))).to_numpy()
    found = pl.Series(texts.name, counts)
    return found.set(texts.is_null(), None) if texts.null_count() else found


def _export(texts: pl.Series) -> Iterator[ArrowArray]:
    """Yield the chunks of a series as Arrow describes them; none if they are no string views.

    Each is valid until the next is asked for.
    """
    capsule = texts.__arrow_c_stream__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsule, b"arrow_array_stream")
    stream = _Stream.from_address(address)
    schema = ArrowSchema()
    if stream.get_schema(address, ctypes.byref(schema)):
        return
    is_known = schema.format == _STRING_VIEWS
    schema.release(ctypes.addressof(schema))
    while is_known:
        array = ArrowArray()
        if stream.get_next(address, ctypes.byref(array)) or not array.release:
            return
        try:
            yield array
        finally:
            array.release(ctypes.addressof(array))


def _describe(array: ArrowArray) -> tuple[int, int, ctypes.Array[_Buffer], int]:
    """Return where the views are, how many, and the same of the buffers that they point to."""
    # Behind validity and views come the buffers, and last of all their sizes.
    count = array.n_buffers - 3
    sizes = (ctypes.c_int64 * count).from_address(array.buffers[count + 2] or 0) if count else ()
    buffers = (_Buffer * max(count, 1))()
    for at, size in enumerate(sizes):
        buffers[at] = _Buffer(array.buffers[at + 2], size)
    views = (array.buffers[1] or 0) + array.offset * _VIEW_BYTES
    return views, array.length, buffers, count
