"""Masking of keys in texts by ***: verbatim, escaped in any usual way, in hex, in base64.

Every text that comes from outside passes through here once, before anything of it is cut, written
or shown. A text that somebody else has cut may hold a part of a key; parts of eight characters or
more are masked too, where the key looks random. Escapes of URLs, JSON, programs and HTML are undone
for the search.

>>> Mask(["my-secret-key"])("the key my-secret-key is invalid, as is Bearer abcdefghijkl")
'the key *** is invalid, as is Bearer ***'
>>> Mask(["Xk29-Lq7Z-04mN-ppT"]).mask_text("GET /?k=Xk29%2DLq7Z%2D04mN%2DppT and Xk29-Lq7Z")
'GET /?k=*** and ***'
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ESCAPE = re.compile(
    r"%[0-7][0-9a-f]"
    r"|\\(?:u00[0-7][0-9a-f]|x[0-7][0-9a-f]|u\{[0-7]?[0-9a-f]\}|U000000[0-7][0-9a-f]|[\"'/\\])"
    r"|&(?:\#x0*[0-7]?[0-9a-f]|\#0*[0-9]{2,3}|amp|lt|gt|quot|apos);",
    re.IGNORECASE,
)
_MARKS = ("%", "\\", "&")

Span = tuple[int, int]


def may_have_escapes(text: str) -> bool:
    """Return True if a text has a character that escapes begin with."""
    return any(mark in text for mark in _MARKS)


class TextView:
    """A text with its escapes undone, and where each character of it was before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.origin: Callable[[int, int], Span] = lambda start, end: (start, end)

    def unescape(self) -> TextView | None:
        """Return the text with one level of escapes undone; None where there are none."""
        if not may_have_escapes(self.text):
            return None
        pieces: list[str] = []
        here, there, ends = [0], [0], [-1]  # of each stretch: its place, its origin, and its end
        at = size = 0
        for match in _ESCAPE.finditer(self.text):
            start, end = match.span()
            pieces += (self.text[at:start], _unescape_one(match[0]))
            size += start - at
            here += (size, size + 1)
            there += (start, end)
            ends += (end, -1)
            size, at = size + 1, end
        if not at:
            return None
        view = TextView("".join((*pieces, self.text[at:])))
        before = self.origin

        def one(place: int) -> Span:
            stretch = bisect_right(here, place) - 1
            start = there[stretch] + place - here[stretch]
            return start, start + 1 if ends[stretch] < 0 else ends[stretch]

        view.origin = lambda start, end: before(one(start)[0], one(end - 1)[1])
        return view


def _unescape_one(escape: str) -> str:
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if escape[0] == "&":
        from html import unescape  # noqa: PLC0415 (the table of its names takes a while to load)

        return unescape(escape)[:1] or " "
    body = escape[1:]
    return body if len(body) == 1 else chr(int(body.strip("uxU{}"), 16))


MASKED = "***"
SHORTEST_KEY = 8  # characters of a key: a shorter one may be a word that occurs in answers
LONGEST_MESSAGE = 500  # characters of a message that are kept

_RANDOM = 16  # characters of a key whose parts are told from words
_MOST_SPANS = 10_000  # a text that holds more of a key than this is masked altogether
_SEARCHED_FOR_PARTS = 1 << 16  # characters; in longer texts only whole keys are looked for
_WORD = 4  # bytes of a piece that the sieve goes by
_LEVELS = 4  # of escapes within escapes

_LOOKS_LIKE_KEY = re.compile(
    r"(?P<before>\b(?:Bearer|Basic)\s+|[?&](?:api[-_]?key|key|token|code|sig)=)[^\s&\"']{6,}"
    r"|\bsk-[A-Za-z0-9_-]{8,}|\bAIza[A-Za-z0-9_-]{20,}|\bgh[pousr]_[A-Za-z0-9]{20,}",
    re.IGNORECASE,
)
_DIGIT_OR_CAMEL = re.compile(r"[0-9]|[a-z][A-Z]")
_IN_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")

_NUMBERS = (int, float, bool)


class Mask:
    """Replaces keys by ***."""

    def __init__(self, keys: Iterable[str]) -> None:
        long_enough = sorted({key for key in keys if len(key) >= SHORTEST_KEY})
        self._needles = tuple(needle for key in long_enough for needle in _make_needles(key))
        self._sieve = _Sieve(piece for secret in self._needles for piece in secret.list_pieces())
        self._digits = tuple(key for key in long_enough if key.isdigit())

    def __call__(self, text: str) -> str:
        """Return a message without keys, and without what looks like one."""
        return _LOOKS_LIKE_KEY.sub(rf"\g<before>{MASKED}", self.mask_text(text))

    def mask_message(self, text: str, most: int = LONGEST_MESSAGE) -> str:
        """Return a message on one line, masked first, then cut to `most` characters."""
        line = " ".join(self(text).split())[:most]
        return "".join(
            character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
            for character in line
        )

    def mask_text(self, text: str) -> str:
        """Return a text without the known keys, otherwise unchanged."""
        if len(text) < SHORTEST_KEY or self._is_surely_clean(text):
            return text
        spans: list[Span] = []
        view = TextView(text)
        for _ in range(_LEVELS):
            spans += (view.origin(*span) for span in islice(self._find(view.text), _MOST_SPANS))
            if len(spans) >= _MOST_SPANS:
                return MASKED
            if (inner := view.unescape()) is None:
                break
            view = inner
        return _cut_spans(text, spans) if spans else text

    def _is_surely_clean(self, text: str) -> bool:
        """Return True if there are no keys, or the text has no escapes and nothing like a key."""
        if not self._needles:
            return True
        return not may_have_escapes(text) and not self._sieve.may_hold(_fold(text))

    def _find(self, text: str) -> Iterator[Span]:
        """Yield where a text, taken literally, contains keys or parts of them."""
        folded = _fold(text)
        if not self._sieve.may_hold(folded):
            return
        in_parts = len(text) <= _SEARCHED_FOR_PARTS
        for needle in self._needles:
            yield from needle.find(text, folded, in_parts=in_parts)

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value without keys: its texts, the names of its fields, its numbers."""
        return value if self.is_clean(value) else self._mask_each(value)

    def is_clean(self, value: Any) -> bool:
        """Return True if a JSON value surely has no keys, by one look at all of its texts."""
        if not self._needles:
            return True
        texts: list[str] = []
        _gather_texts(value, texts)
        joined = "\n".join(texts)
        is_short = len(joined) <= _SEARCHED_FOR_PARTS
        return is_short and not self._digits and self.mask_text(joined) == joined

    def _mask_each(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, dict):
            return {self._mask_each(name): self._mask_each(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self._mask_each(part) for part in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and any(key in repr(value) for key in self._digits):
            return None  # a masked number would be a text
        return value


def _gather_texts(value: Any, texts: list[str]) -> None:
    """Add the texts of a JSON value to those gathered, the names of its fields among them."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        _gather_texts([*value], texts)
        _gather_texts([*value.values()], texts)
    elif isinstance(value, list | tuple):
        for part in value:
            if type(part) is str:
                texts.append(part)
            elif part is not None and type(part) not in _NUMBERS:
                _gather_texts(part, texts)


def _cut_spans(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start >= at:
            pieces += (text[at:start], MASKED)
        at = max(at, end)
    return "".join((*pieces, text[at:]))


@dataclass(frozen=True, slots=True)
class _Needle:
    """A form of a key to look for, and in which pieces of it a part of it is looked for."""

    form: str  # folded
    least: int  # characters of a part that are masked; 0: only the whole
    is_base64: bool = False

    def list_pieces(self) -> Iterator[str]:
        """Yield pieces of the form: a text without any of them contains no part of it either."""
        step = self.least // 2
        if not step:
            yield self.form
            return
        for at in range(0, len(self.form) - step + 1, step):
            yield self.form[at : at + step]

    def find(self, text: str, folded: str, *, in_parts: bool) -> Iterator[Span]:
        """Yield where a text has the form, then where it has parts of it."""
        if self.form in folded:
            yield from self._pad(text, _find_all(self.form, folded))
            folded = folded.replace(self.form, "\0" * len(self.form))
        if not (in_parts and self.least):
            return
        step = self.least // 2
        for number, piece in enumerate(self.list_pieces()):
            for place, _ in _find_all(piece, folded):
                start, end = self._grow(folded, place, number * step, step)
                if end - start >= self.least and (
                    self.is_base64 or _DIGIT_OR_CAMEL.search(text[start:end])
                ):
                    yield start, end

    def _grow(self, folded: str, place: int, at: int, step: int) -> Span:
        """Return how far text and form agree around a piece that both have."""
        start, end = place, place + step
        left, right = at - 1, at + step
        while left >= 0 and start > 0 and folded[start - 1] == self.form[left]:
            start, left = start - 1, left - 1
        while right < len(self.form) and end < len(folded) and folded[end] == self.form[right]:
            end, right = end + 1, right + 1
        return start, end

    def _pad(self, text: str, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield the spans; in base64, a character next to them may hold bits of the key too."""
        for start, end in spans:
            if not self.is_base64:
                yield start, end
                continue
            before = start > 0 and _IN_BASE64.match(text[start - 1])
            after = end < len(text) and _IN_BASE64.match(text[end])
            yield start - bool(before), end + bool(after)


class _Sieve:
    """Excludes quickly the texts that contain none of many pieces, which most texts are.

    Looking for each of 300 pieces in a record of 700 characters takes 0.3 ms, this a fiftieth. The
    first texts are looked through all the same: NumPy, which this takes, is slow to load.
    """

    _SLOTS = 1 << 18
    _FEW = 100

    def __init__(self, pieces: Iterable[str]) -> None:
        starts = (piece.encode("utf-8", "replace")[:_WORD] for piece in pieces)
        self._starts = frozenset(int.from_bytes(start, sys.byteorder) for start in starts)
        self._passed = 0  # texts

    @cached_property
    def _slots(self) -> NDArray[np.bool_]:
        """Where the rest of a number is one that some piece begins with."""
        slots = np.zeros(self._SLOTS, dtype=bool)
        slots[[start % self._SLOTS for start in self._starts]] = True
        return slots

    def may_hold(self, folded: str) -> bool:
        """Return True if a text may have the first four bytes of any piece."""
        data = folded.encode("utf-8", "replace")
        if len(data) < _WORD:
            return False
        if self._passed < self._FEW:
            self._passed += 1
            return True
        # The four bytes from each place on, as whole numbers: places overlap, nothing is copied.
        words = np.ndarray((len(data) - _WORD + 1,), np.uint32, data, strides=(1,))
        slots = words[self._slots[words % self._SLOTS]]
        return bool(slots.size) and not self._starts.isdisjoint(slots.tolist())


def _find_all(form: str, folded: str) -> Iterator[Span]:
    start = folded.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = folded.find(form, start + len(form))


def _make_needles(key: str) -> Iterator[_Needle]:
    """Yield the forms of a key; escapes are undone before, where all is ASCII."""
    is_random = len(key) >= _RANDOM and any(map(str.isdigit, key)) and any(map(str.isalpha, key))
    yield _Needle(_fold(key), SHORTEST_KEY if is_random else 0)
    if not key.isascii():
        yield _Needle(_fold(quote(key, safe="")), 0)
        yield _Needle(_fold(json.dumps(key)[1:-1]), 0)
    data = key.encode("utf-8", "replace")
    yield _Needle(data.hex(), 24 if is_random else 0)
    for offset in range(3):
        yield _Needle(_fold(_encode_core(data, offset)), 16 if is_random else 0, is_base64=True)


def _encode_core(data: bytes, offset: int) -> str:
    """Return the base64 characters that only the key determines, at an offset of three bytes."""
    text = b64encode(bytes(offset) + data).decode().rstrip("=")
    whole = (offset + len(data)) // 3 * 4 if (offset + len(data)) % 3 == 0 else len(text) - 1
    return text[(0, 2, 3)[offset] : whole]


def _fold(text: str) -> str:
    """Return a text as it is compared: in lower case, the two alphabets of base64 alike."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(
            character.lower() if len(character.lower()) == 1 else character for character in text
        )
    return lower.replace("-", "+").replace("_", "/")
