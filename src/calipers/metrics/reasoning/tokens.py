"""`tokens(s)`: how long a text is; by white space unless a model's tokenizer is named."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from calipers.metrics.answers.normalize import PYTHON_SPACE
from calipers.metrics.declare.columns import map_known
from calipers.metrics.reasoning.native_counts import count_each
from calipers.support.errors import MissingExtraError, UsageError
from calipers.support.late import np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from calipers.metrics.declare.settings import Settings

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
            f"--tokenizer {name} needs the tokenizers library", extra="tokenizers"
        ) from error
    try:
        if Path(name).is_file():
            return Tokenizer.from_file(name)
        return Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare Exception
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(
            f"--tokenizer {name}: cannot be loaded ({first_line})",
            fix=f"give a tokenizer.json file, a name on the hub, or {WHITESPACE}",
        ) from error
