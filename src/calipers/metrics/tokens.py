"""`tokens(s)`: how long a text is; by white space unless a model's tokenizer is named."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from calipers.errors import MissingExtraError, UsageError
from calipers.metrics.normalize import PYTHON_SPACE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from calipers.metrics.declaration import Settings

WHITESPACE = "whitespace"

Array = np.ndarray[Any, Any]
_AT_ONCE = 1 << 20  # bytes: what is made of them stays in the processor's cache
_NONE = np.empty(0, dtype=np.int64)

_WORD = f"[^{re.escape(PYTHON_SPACE)}]+"  # what str.split() leaves
_WIDE_SPACE = f"[{''.join(space for space in PYTHON_SPACE if not space.isascii())}]"


def tokens(column: str, settings: Settings) -> pl.Expr:
    """The number of tokens in each text of `column`."""
    if settings.tokenizer == WHITESPACE:
        return pl.col(column).map_batches(_words, return_dtype=pl.Int64)
    name = settings.tokenizer
    return pl.col(column).map_batches(
        lambda texts: _model_tokens(texts, name), return_dtype=pl.Int64
    )


def _words(texts: pl.Series) -> pl.Series:
    """The number of words in each text, as `len(text.split())`.

    A word starts at a byte that is no white space behind one that is. Looking at all bytes at once
    takes a quarter of the time that a regular expression takes. White space outside ASCII is rare;
    the texts that hold any are counted the slow way.
    """
    sizes = texts.str.len_bytes().fill_null(0).to_numpy()
    step = max(1, _AT_ONCE * len(texts) // max(1, int(sizes.sum())))
    pieces = [
        _starts_per_text(texts.slice(row, step), sizes[row : row + step])
        for row in range(0, len(texts), step)
    ]
    counts = pl.Series(texts.name, np.concatenate([_NONE, *pieces]), dtype=pl.Int64)
    beyond_ascii = (texts.str.len_chars() != texts.str.len_bytes()).arg_true()
    if len(beyond_ascii):
        wide = beyond_ascii.filter(texts.gather(beyond_ascii).str.contains(_WIDE_SPACE))
        counts = counts.scatter(wide, texts.gather(wide).str.count_matches(_WORD).cast(pl.Int64))
    return counts.set(texts.is_null(), None) if texts.null_count() else counts


def _starts_per_text(texts: pl.Series, sizes: Array) -> Array:
    """How many words start in each text, from all bytes of all texts at once."""
    data = np.frombuffer(texts.str.join("").cast(pl.Binary).item() or b"", dtype=np.uint8)
    ends = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    is_space = data - ord("\t") <= ord("\r") - ord("\t")  # bytes wrap around below 0
    is_space |= data - ord("\x1c") <= ord(" ") - ord("\x1c")
    is_start = np.empty(len(data), dtype=np.bool_)
    is_start[1:] = is_space[:-1]
    is_start[ends[:-1][sizes > 0]] = True
    np.greater(is_start, is_space, out=is_start)
    counts: Array = np.diff(_set_before(is_start, ends))
    return counts


def _set_before(flags: Array, positions: Array) -> Array:
    """How many flags are set before each position: counted by 64 at a time."""
    packed = np.packbits(flags, bitorder="little")
    words = np.zeros(len(flags) // 64 + 1, dtype=np.uint64)
    words.view(np.uint8)[: len(packed)] = packed
    before = np.concatenate(([0], np.cumsum(np.bitwise_count(words), dtype=np.int64)))
    word, bit = positions >> 6, (positions & 63).astype(np.uint64)
    rest = words[word] & ((np.uint64(1) << bit) - np.uint64(1))
    total: Array = before[word] + np.bitwise_count(rest)
    return total


def _model_tokens(texts: pl.Series, name: str) -> pl.Series:
    tokenizer = load_tokenizer(name)
    encoded = tokenizer.encode_batch(
        [text for text in texts if text is not None], add_special_tokens=False
    )
    lengths = iter([len(encoding.ids) for encoding in encoded])
    counts = [None if text is None else next(lengths) for text in texts]
    return pl.Series(texts.name, counts, dtype=pl.Int64)


def check_tokenizer(name: str) -> None:
    """Fail at once, not in the middle of a run, if the tokenizer cannot be had."""
    if name != WHITESPACE:
        load_tokenizer(name)


@cache
def load_tokenizer(name: str) -> Tokenizer:
    """A tokenizer of the `tokenizers` library: a tokenizer.json file, or a name on the hub."""
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
