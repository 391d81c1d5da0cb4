"""Whether a value is what its annotation says: for frozen values that are built from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def fits(value: Any, hint: Any) -> bool:
    """Say whether a value, down to its last part, is of the type that an annotation names.

    >>> fits({"a": (1, 2)}, Mapping[str, tuple[int, ...]]), fits(True, int), fits(1, float | None)
    (True, False, True)
    """
    origin = get_origin(hint)
    return _is_plain(value, hint) if origin is None else _IN_PARTS[origin](value, get_args(hint))


def _is_plain(value: Any, hint: Any) -> bool:
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if isinstance(hint, type) and is_dataclass(hint):
        named = _hints(hint)
        return type(value) is hint and all(
            fits(getattr(value, each.name), named[each.name]) for each in fields(hint)
        )
    return hint is Any or isinstance(value, NoneType if hint is None else hint)


def _is_any(value: Any, parts: tuple[Any, ...]) -> bool:
    return any(fits(value, part) for part in parts)


def _is_one_of(value: Any, parts: tuple[Any, ...]) -> bool:
    return any(type(value) is type(part) and value == part for part in parts)


def _is_tuple(value: Any, parts: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if parts[-1] is Ellipsis:
        return all(fits(each, parts[0]) for each in value)
    return len(value) == len(parts) and all(map(fits, value, parts))


def _is_mapping(value: Any, parts: tuple[Any, ...]) -> bool:
    keys, values = parts
    return isinstance(value, Mapping) and all(
        fits(key, keys) and fits(each, values) for key, each in value.items()
    )


_IN_PARTS: Mapping[Any, Callable[[Any, tuple[Any, ...]], bool]] = {
    Union: _is_any,
    UnionType: _is_any,
    Literal: _is_one_of,
    tuple: _is_tuple,
    Mapping: _is_mapping,
}


@cache
def _hints(of: type) -> dict[str, Any]:
    return get_type_hints(of)
