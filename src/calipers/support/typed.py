"""Whether a value is what its annotation says: for frozen values that are built from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Check = Callable[[Any], bool]


def fits(value: Any, hint: Any) -> bool:
    """Say whether a value, down to its last part, is of the type that an annotation names.

    >>> fits({"a": (1, 2)}, Mapping[str, tuple[int, ...]]), fits(True, int), fits(1, float | None)
    (True, False, True)
    """
    return _check(hint)(value)


@cache
def _check(hint: Any) -> Check:
    """The check of a type, put together once."""
    origin = get_origin(hint)
    if origin is not None:
        return _IN_PARTS[origin](get_args(hint))
    if isinstance(hint, type) and is_dataclass(hint):
        return _fields_check(hint)
    if hint in (int, float):
        return lambda value: isinstance(value, (int, hint)) and not isinstance(value, bool)
    return lambda value: hint is Any or isinstance(value, NoneType if hint is None else hint)


def _fields_check(of: type) -> Check:
    checks = [(name, _check(hint)) for name, hint in get_type_hints(of).items()]
    return lambda value: (
        type(value) is of and all(check(getattr(value, name)) for name, check in checks)
    )


def _any_check(parts: tuple[Any, ...]) -> Check:
    checks = [_check(part) for part in parts]
    return lambda value: any(check(value) for check in checks)


def _literal_check(parts: tuple[Any, ...]) -> Check:
    return lambda value: any(type(value) is type(part) and value == part for part in parts)


def _tuple_check(parts: tuple[Any, ...]) -> Check:
    checks = [_check(part) for part in parts if part is not Ellipsis]
    if parts[-1] is Ellipsis:
        return lambda value: isinstance(value, tuple) and all(map(checks[0], value))
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _sequence_check(parts: tuple[Any, ...]) -> Check:
    check = _check(parts[0])
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


def _mapping_check(parts: tuple[Any, ...]) -> Check:
    key_fits, value_fits = map(_check, parts)
    return lambda value: (
        isinstance(value, Mapping)
        and all(key_fits(key) and value_fits(each) for key, each in value.items())
    )


_IN_PARTS: Mapping[Any, Callable[[tuple[Any, ...]], Check]] = {
    Union: _any_check,
    UnionType: _any_check,
    Literal: _literal_check,
    tuple: _tuple_check,
    Sequence: _sequence_check,
    Mapping: _mapping_check,
}
