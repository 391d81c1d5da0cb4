"""Text from outside on a page: no control characters, and no more of it than can be read."""

from __future__ import annotations

_KEPT = "\n\t"


def shown(value: object) -> str:
    """A text as a page may hold it; lines stay lines."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(each if each.isprintable() or each in _KEPT else "\ufffd" for each in lines)


def clipped(value: object, most: int = 600) -> str:
    """The beginning of a text, and how much more there is.

    >>> clipped("abcdef", 4)
    'abcd… (2 more characters)'
    """
    text = str(value)
    if len(text) <= most:
        return shown(value)
    return f"{shown(text[:most])}… ({len(text) - most:,} more characters)"
