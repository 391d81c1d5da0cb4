"""Results as strict JSON: no NaN, and an infinite number is a string."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def to_finite(value: float | None) -> float | str | None:
    """Return a number as strict JSON allows it: an infinite one as text, NaN as null.

    >>> to_finite(0.5), to_finite(float("-inf")), to_finite(float("nan")), to_finite(None)
    (0.5, '-Infinity', None, None)
    """
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


def to_plain(value: Any) -> Any:
    """Return a result as JSON has it: objects by their fields, lists, and finite numbers.

    An object with a `to_dict` of its own is what that returns.
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return to_plain_fields(value)
    if isinstance(value, float):
        return to_finite(value)
    if isinstance(value, Mapping):
        return {name: to_plain(each) for name, each in value.items()}
    return [to_plain(each) for each in value] if isinstance(value, list | tuple) else value


def to_plain_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object by name, in their order, each as JSON has it."""
    return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}


def dump_strict(value: Any, *, indent: int | None = 1) -> str:
    """Return the strict JSON of a value; equal values give equal bytes."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def name_with_settings(model: str, settings: Mapping[str, Any]) -> str:
    """Return a judge's model with its own settings, which together identify the judge.

    >>> name_with_settings("openai:m", {"temperature": 0.7})
    'openai:m, temperature 0.7'
    """
    said = (
        f"{name} {value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in sorted(settings.items())
    )
    return ", ".join([model, *said])
