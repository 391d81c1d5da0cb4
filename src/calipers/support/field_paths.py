"""Paths into records, and texts with a record's fields in braces.

`meta.p_true` is a field of that name, or else a value inside `meta`; `{order_id}`, `{Gold Answer}`
and `{turns[0].text}` in a text are fields of the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any

_INDEXED = re.compile(r"(.*?)((?:\[-?\d+\])+)", re.DOTALL)
_INDEX = re.compile(r"-?\d+")
_MOST_DIGITS = 9  # of an index


@cache
def split_path(name: str) -> tuple[str | int, ...]:
    """Return the steps of a path: names of fields, and places in lists.

    >>> split_path("choices[0].message.content")
    ('choices', 0, 'message', 'content')
    >>> split_path("Latency [ms]")
    ('Latency [ms]',)
    """
    steps: list[str | int] = []
    for part in name.split("."):
        match = _INDEXED.fullmatch(part)
        places = _INDEX.findall(match[2]) if match else []
        if match is None or max(map(len, places)) > _MOST_DIGITS or not (match[1] or steps):
            steps.append(part)
            continue
        steps += [match[1]] if match[1] else []
        steps += map(int, places)
    return tuple(steps)


def split_root(name: str) -> tuple[str, str]:
    """Return the field that a path begins in, and the rest of it, empty where it is no path.

    >>> split_root("choices[0].text"), split_root("meta.p_true"), split_root("answer")
    (('choices', '[0].text'), ('meta', '.p_true'), ('answer', ''))
    """
    root = str(split_path(name)[0])
    return root, name[len(root) :]


def look_up(row: Mapping[str, Any], name: str) -> Any:
    """Return a row's value under a name, or at the path of that name; None where there is none.

    >>> look_up({"choices": [{"text": "4"}, {"text": "5"}]}, "choices[-1].text")
    '5'
    """
    if name in row:
        return row[name]
    return follow(row, split_path(name))


def follow(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Return what is at these steps inside a value; None where there is nothing."""
    for step in steps:
        if isinstance(value, str) and value[:1] in "{[":  # tables hold objects as JSON text
            value = _load(value)
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        elif isinstance(value, list | tuple) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# A name has a letter, and nothing that JSON or a formula has: quotes, colons, commas, signs.
_NAME = r"(?=[^{}]*[^\W\d_])[\w.$%#?/()\[\] -]+"
_FIELD = re.compile(rf"\{{\{{|\}}\}}|\{{({_NAME}|_[\w.-]*)\}}")
# In a regular expression `\p{Greek}` and `\x{A0}` are no fields, and braces are doubled by nobody.
_IN_PATTERN = re.compile(r"\\.(?:\{[^}]*\})?|\{([^\W\d][\w. -]*)\}")


class Template:
    """A text whose fields are filled in for each record."""

    def __init__(self, text: str, *, is_pattern: bool = False) -> None:
        self.text = text
        self._is_pattern = is_pattern
        self._syntax = _IN_PATTERN if is_pattern else _FIELD
        names = (match[1] for match in self._syntax.finditer(text) if match[1])
        self.fields = tuple(dict.fromkeys(names))

    @cached_property
    def pieces(self) -> tuple[tuple[str, bool], ...]:
        """The text in pieces, each with whether it names a field."""
        parts: list[tuple[str, bool]] = []
        at = 0
        for match in self._syntax.finditer(self.text):
            if match[1] is None and self._is_pattern:
                continue
            parts.append((self.text[at : match.start()], False))
            parts.append((match[1], True) if match[1] else (match[0][0], False))
            at = match.end()
        parts.append((self.text[at:], False))
        return tuple(piece for piece in parts if piece[0])

    def fill(self, record: Mapping[str, Any], quote: Callable[[str], str] = str) -> str:
        """Return the text filled in for one record; `quote` is applied to the fields' values first.

        >>> Template("order {id}").fill({"id": 17})
        'order 17'
        """
        return "".join(
            quote(_format_value(look_up(record, part))) if is_field else part
            for part, is_field in self.pieces
        )


def escape_braces(text: str) -> str:
    """Return a text that stands for itself in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
