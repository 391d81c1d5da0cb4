"""Untrusted text on a page: without control characters, and cut to a readable length."""

from __future__ import annotations

_KEPT = "\n\t"
_WITHOUT_KEPT = str.maketrans("", "", _KEPT)


def clean_text(value: object) -> str:
    """Return a text as a page may contain it; lines stay lines."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if lines.translate(_WITHOUT_KEPT).isprintable():  # as most are
        return lines
    return "".join(each if each.isprintable() or each in _KEPT else "\ufffd" for each in lines)


def clip_text(value: object, most: int = 600) -> str:
    """Return the beginning of a text, and how much more there is.

    >>> clip_text("abcdef", 4)
    'abcd… (2 more characters)'
    """
    text = str(value)
    if len(text) <= most:
        return clean_text(value)
    return f"{clean_text(text[:most])}… ({len(text) - most:,} more characters)"
