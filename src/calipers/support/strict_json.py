"""Results as strict JSON, and back: no NaN, and an infinite number is a string."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter


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
        return {name: to_plain(part) for name, part in value.items()}
    return [to_plain(part) for part in value] if isinstance(value, list | tuple) else value


def to_plain_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object by name, in their order, each as JSON has it."""
    return {part.name: to_plain(getattr(value, part.name)) for part in fields(value)}


def dump_strict(value: Any, *, indent: int | None = 1) -> str:
    """Return the strict JSON of a value; equal values give equal bytes."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def name_with_settings(model: str, settings: Mapping[str, Any]) -> str:
    """Return a judge's model with its own settings, which together identify the judge.

    >>> name_with_settings("openai:m", {"temperature": 0.7})
    'openai:m, temperature 0.7'
    """
    changed = (
        f"{name} {value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in sorted(settings.items())
    )
    return ", ".join([model, *changed])


T = TypeVar("T")
Shape = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def restore(of: type[T], stored: Mapping[str, Any], shape: Shape) -> T | None:
    """Return the value of a type that JSON holds, or None where it is damaged or something else.

    `shape` gives the JSON the names of the type's fields. Types are strict: a text is not a number.
    Unknown keys are ignored: a later version may write them.
    """
    try:
        text = json.dumps(shape(stored))
        built: T = _make_adapter(cast("Any", of)).validate_json(text, strict=True)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return built


def restore_number(stored: Any) -> Any:
    """Return a number of strict JSON, where an infinite one is a text; anything else as it is.

    >>> restore_number("-Infinity"), restore_number(0.5), restore_number("NaN")
    (-inf, 0.5, 'NaN')
    """
    return float(stored) if stored in ("Infinity", "-Infinity") else stored


@cache
def _make_adapter(of: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 (only where a result is read back)

    return TypeAdapter(of)
