"""Registries of what users can add: metrics, log readers, systems, checks, rubrics.

A folder that lets users add something holds a `Registry`, and `add_registry` declares which type
goes into it; `register` finds the registry by the type of its argument. A lookup loads the plug-ins
of installed packages first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from calipers.support.errors import ArgumentTypeError, UsageError, nearest


class Named(Protocol):
    """Anything that has a name."""

    @property
    def name(self) -> str:
        """How it is looked up."""


T = TypeVar("T")
N = TypeVar("N", bound=Named)

_KINDS: dict[type, Registry[Any]] = {}
_PASSED_OVER = frozenset({__name__, "calipers.support.plugins"})  # between a caller and us


class Registry(Generic[T]):
    """Things of one kind by name, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # in words: "metric"
        self._things: dict[str, T] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, thing: T, origin: str, *, replace: bool = False) -> None:
        """Add a thing; the same definition again, or one from the same place, replaces the old.

        Raises UsageError where another thing has the name.
        """
        held = self._things.get(name)
        same = self._origins.get(name) == origin or get_definition(held) == get_definition(thing)
        if held is not None and not (replace or same):
            raise UsageError(
                f"two {self.kind}s are called {name}: the first comes from {self._origins[name]}, "
                f"the second from {origin}",
                fix="rename one of them, or register the second with replace=True",
            )
        self._things[name], self._origins[name] = thing, origin

    def remove(self, name: str) -> None:
        """Remove the thing of that name, if there is one."""
        self._things.pop(name, None)
        self._origins.pop(name, None)

    def read_all(self) -> dict[str, T]:
        """Return the things by name, those of installed plug-ins too."""
        from calipers.support.plugins import load_installed  # noqa: PLC0415 (only on a lookup)

        load_installed()
        return dict(self._things)

    def get(self, name: str) -> T:
        """Return the thing of that name, or raise UsageError with the nearest name."""
        found = self.read_all()
        if name not in found:
            raise UsageError(f"no {self.kind} is called {name}", fix=nearest(name, found))
        return found[name]

    def find_origin(self, name: str) -> str | None:
        """Return where the thing of that name comes from, or None."""
        return self._origins.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.read_all())


def get_definition(thing: Any) -> Any:
    """Return the `definition` of a thing, or the thing itself, to compare two of them."""
    defined = getattr(thing, "definition", None)
    return thing if defined is None else defined


def add_registry(kind: type, registry: Registry[Any]) -> None:
    """Make `register` put things of a type into a registry."""
    _KINDS[kind] = registry


def register(thing: N, *, replace: bool = False) -> N:
    """Add a metric, a log reader, a system, a check or a rubric under its name, and return it.

    The same definition may be registered again, as when a notebook's cell runs twice. Another
    definition of the same name raises UsageError with where the first comes from, unless `replace`
    is set; a thing of no kind that can be added raises TypeError.

    >>> register(3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    calipers.support.errors.ArgumentTypeError: register: expected a metric, ..., not int
    ...
    """
    add_thing(thing, _find_caller(), replace=replace)
    return thing


def add_thing(thing: Named, origin: str, *, replace: bool = False) -> None:
    """Add a thing to the registry of its type, as `register` does; `origin` is where it is from."""
    registry = next((_KINDS[kind] for kind in type(thing).__mro__ if kind in _KINDS), None)
    if registry is None:
        raise ArgumentTypeError(
            "register: expected a metric, a log reader, a system, a check or a rubric, "
            f"not {type(thing).__name__}",
            fix="for example calipers.register(calipers.metrics.mean(…))",
        )
    registry.add(thing.name, thing, origin, replace=replace)


def _find_caller() -> str:
    """Return the line that registers something: FILE:LINE."""
    frame = sys._getframe(1)  # noqa: SLF001 (as the standard library's warnings do)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _PASSED_OVER:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
