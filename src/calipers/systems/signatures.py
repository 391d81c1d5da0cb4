"""The argument of a Python system, by its annotation: a text, or the record."""

from __future__ import annotations

import inspect
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes_text(function: Any) -> bool:
    """Say whether the first parameter of a function is annotated as a text.

    `str`, `str | None`, `Annotated[str, …]` and names for these are texts. Where a dict is allowed
    too, nothing is annotated, or the annotation cannot be resolved, the function takes the record.

    >>> def answer(prompt: str) -> str: ...
    >>> def solve(record: str | dict) -> str: ...
    >>> takes_text(answer), takes_text(solve), takes_text(lambda record: "")
    (True, False, False)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
        first = next((each for each in parameters if each.kind in _POSITIONAL), None)
        return first is not None and _is_text(_resolve(first.annotation, function))
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return False


def _resolve(annotation: Any, function: Any) -> Any:
    """Return what a string annotation names, where its function is defined."""
    if not isinstance(annotation, str):
        return annotation
    holder = type("Holder", (), {"__annotations__": {"given": annotation}})
    return get_type_hints(holder, getattr(_unwrap(function), "__globals__", {}))["given"]


def _unwrap(function: Any) -> Any:
    """Return the function that stands behind a partial one, a method or a callable object."""
    if isinstance(function, partial):
        return _unwrap(function.func)
    if not inspect.isroutine(function):
        return inspect.unwrap(type(function).__call__)
    return inspect.unwrap(getattr(function, "__func__", function))


def _is_text(hint: Any) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, str)
    for alias in ("__supertype__", "__value__"):  # NewType, and `type Prompt = str`
        if hasattr(hint, alias):
            return _is_text(getattr(hint, alias))
    if get_origin(hint) is Annotated:
        return _is_text(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return all(_is_text(each) for each in get_args(hint) if each is not NoneType)
    return False
