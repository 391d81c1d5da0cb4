"""Texts with their escapes undone: of URLs, of JSON and programs, of HTML."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

_ESCAPE = re.compile(
    r"%[0-7][0-9a-f]"
    r"|\\(?:u00[0-7][0-9a-f]|x[0-7][0-9a-f]|u\{[0-7]?[0-9a-f]\}|U000000[0-7][0-9a-f]|[\"'/\\])"
    r"|&(?:\#x0*[0-7]?[0-9a-f]|\#0*[0-9]{2,3}|amp|lt|gt|quot|apos);",
    re.IGNORECASE,
)
_MARKS = ("%", "\\", "&")

Span = tuple[int, int]


def may_have_escapes(text: str) -> bool:
    """Say whether a text has a character that escapes begin with."""
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
