"""Texts with fields of a record in braces: `{order_id}`; other braces stand for themselves.

>>> Template('{question} as JSON: {"answer": …}').fields
('question',)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.-]*)\}")
# In a regular expression `\p{Greek}` and `\x{A0}` are no fields, and braces are doubled by nobody.
_IN_PATTERN = re.compile(r"\\.(?:\{[^}]*\})?|\{([A-Za-z_][\w.-]*)\}")


class Template:
    """A text whose fields are filled in for each record."""

    def __init__(self, text: str, *, is_pattern: bool = False) -> None:
        self.text = text
        self._is_pattern = is_pattern
        self._syntax = _IN_PATTERN if is_pattern else _FIELD
        found = (match[1] for match in self._syntax.finditer(text) if match[1])
        self.fields = tuple(dict.fromkeys(found))

    @cached_property
    def pieces(self) -> tuple[tuple[str, bool], ...]:
        """The text in pieces, each with whether it names a field."""
        found: list[tuple[str, bool]] = []
        at = 0
        for match in self._syntax.finditer(self.text):
            if match[1] is None and self._is_pattern:
                continue
            found.append((self.text[at : match.start()], False))
            found.append((match[1], True) if match[1] else (match[0][0], False))
            at = match.end()
        found.append((self.text[at:], False))
        return tuple(each for each in found if each[0])

    def fill(self, record: Mapping[str, Any], quote: Callable[[str], str] = str) -> str:
        """Return the text filled in for one record; `quote` is applied to the fields' values first.

        >>> Template("order {id}").fill({"id": 17})
        'order 17'
        """
        return "".join(
            quote(_format_value(record.get(part))) if is_field else part
            for part, is_field in self.pieces
        )


def escape_braces(text: str) -> str:
    """Return a text that stands for itself in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
