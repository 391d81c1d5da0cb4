"""The library that the package may bring along: functions in Rust, called without Python's lock.

`native/` has its source; docs/decisions/0014-native-equations.md says why. Whatever it does can be
done without it, with the same results. `CALIPERS_NATIVE=0` switches it off.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

_VERSION = 7  # of the library's rules and functions: native/src/lib.rs
_TEXTS = (ctypes.c_void_p, ctypes.c_size_t) * 2  # views and buffers of a column
_FUNCTIONS = {
    **dict.fromkeys(("count_equations", "count_words", "count_steps"), (*_TEXTS, ctypes.c_void_p)),
    "judge_statements": (*_TEXTS, *_TEXTS, ctypes.c_void_p),
    "count_lines": (ctypes.c_char_p, ctypes.c_size_t),
    "find_new_line": (
        *(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t),
        *(ctypes.c_void_p, ctypes.c_size_t),
    ),
    "read_lines": (
        *(ctypes.c_char_p, ctypes.c_size_t),
        *(ctypes.c_void_p, ctypes.c_size_t),
        *(ctypes.c_void_p, ctypes.c_void_p),
    ),
}
# Not *.so: Python would take it for a module.
LIBRARY = Path(__file__).with_name("calipers.native")


class ArrowArray(ctypes.Structure):
    """ArrowArray of Arrow's C data interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers")),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        *((name, ctypes.c_void_p) for name in ("children", "dictionary")),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


class ArrowSchema(ctypes.Structure):
    """ArrowSchema, as far as it is read here."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("format", "name", "metadata")),
        *((name, ctypes.c_int64) for name in ("flags", "n_children")),
        *((name, ctypes.c_void_p) for name in ("children", "dictionary")),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


def open_library() -> ctypes.CDLL | None:
    """Return the library; None where there is none that fits, or it is switched off."""
    return None if os.environ.get("CALIPERS_NATIVE") == "0" else _load_library()


@cache
def _load_library() -> ctypes.CDLL | None:
    """Return the library if the package has one, of these rules, that this machine can load."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        version = library.calipers_equations_version
    except (OSError, AttributeError):
        return None
    version.restype = ctypes.c_uint32
    if version() != _VERSION:
        return None
    for name, types in _FUNCTIONS.items():
        function = getattr(library, f"calipers_{name}")
        function.argtypes = [*types]
        is_place = name in ("count_lines", "find_new_line")
        function.restype = ctypes.c_ssize_t if is_place else ctypes.c_int
    return library
