"""Counts in many texts: with the native library, and of tokens.

The native library follows the rules in Python to the letter, and leaves to Python what it cannot
count: huge numbers, and characters on which versions of Unicode differ. Tokens are split by white
space unless a model's tokenizer is named.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from calipers.metrics.declare.means import map_known
from calipers.metrics.families.answers import PYTHON_SPACE
from calipers.support.errors import MissingExtraError, UsageError
from calipers.support.lazy_numpy import np
from calipers.support.native import ArrowArray, ArrowSchema, open_library

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from calipers.metrics.declare.settings import Settings

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


def count_natively(
    function: str, texts: pl.Series, columns: int = 1, beside: pl.Series | None = None
) -> Counts | None:
    """Return the counts of each text, -1 for those that are left to Python.

    The function is given the texts `beside` them, too, if there are any.

    None where there is no library, where it is switched off, or cannot read the texts.
    """
    library = open_library()
    if library is None or texts.dtype != pl.String:
        return None
    count = getattr(library, f"calipers_{function}")
    parts = []
    others = () if beside is None else _export(beside.rechunk())
    texts = texts if beside is None else texts.rechunk()
    for array in _export(texts.fill_null("") if texts.null_count() else texts):
        counts = np.empty((array.length, columns), dtype=np.int64)
        other = () if beside is None else _describe(next(iter(others)))
        if count(*_describe(array), *other, counts.ctypes.data):
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


WHITESPACE = "whitespace"

Array: TypeAlias = "np.ndarray[Any, Any]"
_AT_ONCE = 1 << 18  # bytes: what is made of them stays in the processor's cache

# White space outside ASCII, as numbers of two and of three bytes.
_WIDE = [space.encode() for space in PYTHON_SPACE if not space.isascii()]
_WIDE_2, _WIDE_3 = (
    [int.from_bytes(space) for space in _WIDE if len(space) == size] for size in (2, 3)
)
_WIDE_FIRST = min(space[0] for space in _WIDE)
_WIDE_LAST = max(space[0] for space in _WIDE)


def count_tokens(column: str, settings: Settings) -> pl.Expr:
    """Return the number of tokens in each text of `column`."""
    count = partial(_count_model_tokens, name=settings.tokenizer)
    if settings.tokenizer == WHITESPACE:
        count = partial(count_each, "count_words", in_python=count_words_in_python)
    return map_known(pl.col(column), count, pl.Int64())


def count_words_in_python(texts: pl.Series) -> pl.Series:
    """Return the number of words in each text, as `len(text.split())`, without the native library.

    A word starts at a byte that is no white space behind one that is. Looking at all bytes at once
    takes a fraction of the time that a regular expression takes.
    """
    data = np.frombuffer(texts.str.join("").cast(pl.Binary).item() or b"", dtype=np.uint8)
    sizes = texts.str.len_bytes().fill_null(0).to_numpy()
    ends = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    space = _find_spaces(data)
    starts = space << 1
    starts[1:] |= space[:-1] >> np.uint64(63)
    _set(starts, ends[:-1][sizes > 0])
    starts &= ~space
    counts = pl.Series(texts.name, np.diff(_count_before(starts, ends)), dtype=pl.Int64)
    return counts.set(texts.is_null(), None) if texts.null_count() else counts


def _find_spaces(data: Array) -> Array:
    """Return a bit per byte of UTF-8: whether it is, or is part of, white space; 64 to a word."""
    bits = np.zeros(len(data) // 64 + 1, dtype=np.uint64)
    packed = bits.view(np.uint8)
    shifted = np.empty(_AT_ONCE, dtype=np.uint8)
    flags, more = np.empty((2, _AT_ONCE), dtype=np.bool_)
    leads = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(data), _AT_ONCE):
        piece = data[start : start + _AT_ONCE]
        size = len(piece)

        def within(low: int, high: int, out: Array, piece: Array = piece) -> Array:
            np.subtract(piece, low, out=shifted[: len(piece)])  # wraps around below 0
            return np.less_equal(shifted[: len(piece)], high - low, out=out[: len(piece)])

        found = np.flatnonzero(within(_WIDE_FIRST, _WIDE_LAST, out=flags))
        space = within(ord("\t"), ord("\r"), out=flags)
        space |= within(ord("\x1c"), ord(" "), out=more)
        packed[start // 8 : (start + size + 7) // 8] = np.packbits(space, bitorder="little")
        leads.append(found + start)
    if (wide := np.concatenate(leads)).size:
        _set(bits, _find_wide_spaces(data, wide))
    return bits


def _find_wide_spaces(data: Array, leads: Array) -> Array:
    """Return the bytes of white space outside ASCII, given where such a character might start."""
    first, second, third = (  # a third byte may lie beyond the end
        data.take(leads + offset, mode="clip").astype(np.uint32) for offset in range(3)
    )
    two = first << 8 | second
    found = (
        (2, np.isin(two, np.array(_WIDE_2, dtype=np.uint32))),
        (3, np.isin(two << 8 | third, np.array(_WIDE_3, dtype=np.uint32))),
    )
    return np.concatenate(
        [leads[where] + offset for size, where in found for offset in range(size)]
    )


def _set(bits: Array, positions: Array) -> None:
    np.bitwise_or.at(bits, positions >> 6, 1 << (positions & 63).astype(np.uint64))


def _count_before(words: Array, positions: Array) -> Array:
    """Return how many bits are set before each position."""
    before = np.concatenate(([0], np.cumsum(np.bitwise_count(words), dtype=np.int64)))
    word, bit = positions >> 6, (positions & 63).astype(np.uint64)
    rest = words[word] & ((1 << bit) - 1)
    total: Array = before[word] + np.bitwise_count(rest)
    return total


def _count_model_tokens(texts: pl.Series, name: str) -> pl.Series:
    tokenizer = load_tokenizer(name)
    encoded = tokenizer.encode_batch(
        [text for text in texts if text is not None], add_special_tokens=False
    )
    lengths = iter([len(encoding.ids) for encoding in encoded])
    counts = [None if text is None else next(lengths) for text in texts]
    return pl.Series(texts.name, counts, dtype=pl.Int64)


def check_tokenizer(name: str) -> None:
    """Raise UsageError at once, not in the middle of a run, if the tokenizer is unavailable."""
    if name != WHITESPACE:
        load_tokenizer(name)


@cache
def load_tokenizer(name: str) -> Tokenizer:
    """Return a tokenizer of the `tokenizers` library, by a tokenizer.json or a name on the hub."""
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 (an extra, loaded where used)
    except ImportError as error:
        raise MissingExtraError(
            f"--set tokenizer={name} needs the tokenizers library", extra="tokenizers"
        ) from error
    try:
        if Path(name).is_file():
            return Tokenizer.from_file(name)
        return Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare Exception
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(
            f"--set tokenizer={name}: cannot be loaded ({first_line})",
            fix=f"give a tokenizer.json file, a name on the hub, or {WHITESPACE}",
        ) from error
