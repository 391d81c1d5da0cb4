"""The values of checks: how they are read from a file, and their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from calipers.support.config.files import shown
from calipers.support.config.models import refuse
from calipers.support.templates import Template

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
NOT_NEGATIVE: Schema = {"type": "number", "minimum": 0}


def make_object_schema(properties: Mapping[str, Schema], *needed: str) -> Schema:
    """Return the schema of a mapping that has these keys and no others."""
    required = {"required": list(needed)} if needed else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def read_text(value: Any, *, at: tuple[str, ...] = (), is_pattern: bool = False) -> Template:
    """Return a text with fields; a number stands for its digits."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = json.dumps(value)
    if not isinstance(value, str) or not value:
        refuse("a text is needed", fix="put it in quotes", at=at)
    return Template(value, is_pattern=is_pattern)


def read_number(value: Any, *, fix: str, at: tuple[str, ...] = (), whole: bool = False) -> float:
    """Return a number from 0 on."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < float("inf"):
        what = "a whole number from 0 on" if whole else "a number from 0 on"
        refuse(f"{shown(value)} is not {what}", fix=fix, at=at)
    return value


def read_keys(value: Any, known: Sequence[str], needed: Sequence[str], fix: str) -> dict[str, Any]:
    """Return a mapping that has all that is needed and nothing that is unknown."""
    if not isinstance(value, Mapping):
        refuse(f"{shown(value)} is not a mapping of keys to values", fix=fix)
    from calipers.support.errors import nearest  # noqa: PLC0415 (only where something is wrong)

    for key in value:
        if key not in known:
            refuse(f"{shown(key)} is not a known key", fix=nearest(str(key), known), at=(key,))
    for key in needed:
        if key not in value:
            refuse(f"{key} is missing", fix=fix)
    return dict(value)
