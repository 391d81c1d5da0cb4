"""Results read back from their JSON into the frozen values that they were written from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")
Shape = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def read_stored(of: type[T], found: Mapping[str, Any], shape: Shape) -> T | None:
    """Return the value of a type that JSON holds, or None where it is damaged or something else.

    `shape` gives the JSON the names of the type's fields. Types are strict: a text is not a number.
    Unknown keys are ignored: a later version may write them.
    """
    try:
        text = json.dumps(shape(found))
        built: T = _make_adapter(cast("Any", of)).validate_json(text, strict=True)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return built


def read_number(found: Any) -> Any:
    """Return a number of strict JSON, where an infinite one is a text; anything else as it is.

    >>> read_number("-Infinity"), read_number(0.5), read_number("NaN")
    (-inf, 0.5, 'NaN')
    """
    return float(found) if found in ("Infinity", "-Infinity") else found


@cache
def _make_adapter(of: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of)
