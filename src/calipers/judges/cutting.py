"""Texts that are too long for a judge: cut where a paragraph ends, and marked, never silently."""

from __future__ import annotations

import re

_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_AT_LEAST = 0.5  # of the limit, else a line, a sentence or a word has to do


def cut(text: str, limit: int | None) -> tuple[str, bool]:
    r"""Return the text within the limit, and whether something is missing.

    >>> print(cut("One.\n\nTwo is longer.\n\nThree.", 22)[0])
    One.
    <BLANKLINE>
    Two is longer.
    <BLANKLINE>
    [cut here: 8 of 28 characters left out]
    """
    if limit is None or len(text) <= limit:
        return text, False
    end = _end(text, limit)
    kept = text[:end].rstrip()
    left = len(text) - len(kept)
    return f"{kept}\n\n[cut here: {left:,} of {len(text):,} characters left out]", True


def _end(text: str, limit: int) -> int:
    """Return where the last whole paragraph ends; if that is too early, the last line or word."""
    breaks = [each.start() for each in _PARAGRAPH.finditer(text, 0, limit + 2)]
    ends = [breaks[-1] if breaks else -1]
    ends += [text.rfind(mark, 0, limit) + len(mark) - 1 for mark in ("\n", ". ", " ")]
    return next((end for end in ends if limit * _AT_LEAST <= end <= limit), limit)
