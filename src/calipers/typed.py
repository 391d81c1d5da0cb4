"""Whether a value is what its annotation says: for frozen values that are built from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def fits(value: Any, hint: Any) -> bool:
    """Say whether a value, down to its last part, is of the type that an annotation names.

    >>> fits({"a": (1, 2)}, Mapping[str, tuple[int, ...]]), fits(True, int), fits(1, float | None)
    (True, False, True)
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(value, parts)
    if origin is Mapping:
        keys, values = parts
        return isinstance(value, Mapping) and all(
            fits(key, keys) and fits(each, values) for key, each in value.items()
        )
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if is_dataclass(hint):
        named = _hints(hint)
        return type(value) is hint and all(
            fits(getattr(value, each.name), named[each.name]) for each in fields(hint)
        )
    return isinstance(value, NoneType if hint is None else hint)


def _all_fit(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:  # noqa: PLR2004
        return all(fits(each, parts[0]) for each in value)
    return len(value) == len(parts) and all(map(fits, value, parts))


@cache
def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)
