"""`dataclass` of the standard library, made in a small part of the time.

Before 3.13 Python compiles each of the methods of a dataclass on its own: half a millisecond a
class, and a command loads more than two hundred. Here `__init__` alone is compiled, and only for
classes of which there are several instances; the other methods find the fields by name. All else is
left to the standard library: the fields, slots, `replace`, `asdict`. There is no `InitVar` here.

>>> @dataclass(frozen=True)
... class Point:
...     x: int
...     y: int = 0
>>> Point(1), Point(1) == Point(1, 0), hash(Point(1)) == hash((1, 0))
(Point(x=1, y=0), True, True)
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

Fields = tuple[Field[Any], ...]
Methods = dict[str, Callable[..., Any] | None]
_FEW = 5  # instances for which nothing is compiled

if TYPE_CHECKING or sys.version_info >= (3, 13):
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **options: bool) -> Any:
        """Return the class as a dataclass; without a class, return what makes one of it."""

        def make(cls: type) -> Any:
            if _is_unusual(cls, **options):
                return dataclasses.dataclass(cls, frozen=frozen, **options)
            return _make_quickly(cls, frozen=frozen, **options)

        return make if cls is None else make(cls)


def _is_unusual(cls: type, **options: bool) -> bool:
    """Say whether the standard library has to make all of the class."""
    held_back = any(isinstance(each, Field) and not each.init for each in vars(cls).values())
    asked = any(options.get(name) for name in ("order", "unsafe_hash"))
    return held_back or asked or not options.get("init", True)


def _make_quickly(cls: Any, *, frozen: bool, **options: bool) -> Any:
    own = {*vars(cls)}
    if "__eq__" in own and cls.__hash__ is None:  # which Python has set, not the class
        own.discard("__hash__")
    eq, shown = options.pop("eq", True), options.pop("repr", True)
    inherits = frozen and dataclasses.is_dataclass(cls)  # the library wants to know, and compiles
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, frozen=inherits, **options)
    fields = dataclasses.fields(made)
    methods: Methods = {"__init__": _make_first_init(made, fields)}
    if frozen:
        methods |= _make_guards(made, fields)
    if shown:
        methods["__repr__"] = _make_repr(fields)
    if eq:
        methods |= _make_comparisons(fields)
        if not frozen:
            methods["__hash__"] = None
    if frozen and options.get("slots"):
        methods |= _make_copying(fields)
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    if "__init__" not in own:
        made.__signature__ = _NotYet(made, fields)
    parameters = made.__dataclass_params__
    parameters.init, parameters.repr, parameters.eq, parameters.frozen = True, shown, eq, frozen
    return made


def _make_first_init(cls: Any, fields: Fields) -> Callable[..., None]:
    """Return an `__init__` for the first instances, which then makes one that is quicker.

    To compile that takes as long as dozens of instances do without, and most classes have few.
    """
    by_place = [each.name for each in fields if not each.kw_only]
    names = {each.name for each in fields}
    finish = getattr(cls, "__post_init__", None)
    left = _FEW

    def init(self: Any, *values: Any, **named: Any) -> None:
        nonlocal left
        left -= 1
        given = dict(zip(by_place, values, strict=False))
        is_usual = len(given) == len(values) and named.keys() <= names - given.keys()
        given |= named
        if left < 0 or not is_usual or any(_is_lacking(each, given) for each in fields):
            compiled = _make_init(cls, fields)  # which also says what is wrong with the arguments
            if cls.__init__ is init:
                cls.__init__ = compiled
            compiled(self, *values, **named)
            return
        for each in fields:
            name = each.name
            if name in given:
                value = given[name]
            else:
                made = each.default_factory
                value = each.default if made is MISSING else made()
            object.__setattr__(self, name, value)
        if finish is not None:
            self.__post_init__()

    return init


def _is_lacking(field: Field[Any], given: dict[str, Any]) -> bool:
    return field.name not in given and field.default is MISSING and field.default_factory is MISSING


class _NotYet:
    """Makes `__init__` when its signature is asked for, which `inspect` then finds there."""

    def __init__(self, cls: Any, fields: Fields) -> None:
        self._cls, self._fields = cls, fields

    def __get__(self, instance: object, owner: type) -> NoReturn:
        if owner == self._cls:
            del self._cls.__signature__
            self._cls.__init__ = _make_init(self._cls, self._fields)
        raise AttributeError("__signature__")


def _make_init(cls: Any, fields: Fields) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    by_place, by_name, lines = ["self"], ["*"], []
    for each in fields:
        name = value = each.name
        default = "" if each.default is MISSING else f"=_default_{name}"
        known[f"_default_{name}"] = each.default
        if each.default_factory is not MISSING:
            default, value = "=_MISSING", f"_make_{name}() if {name} is _MISSING else {name}"
            known[f"_make_{name}"] = each.default_factory
        (by_name if each.kw_only else by_place).append(f"{name}{default}")
        lines.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*by_place, *(by_name if len(by_name) > 1 else ())])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), known)  # noqa: S102 (as the library)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"  # in messages about arguments
    init.__annotations__ = {**{each.name: each.type for each in fields}, "return": None}
    return init


def _make_guards(cls: Any, fields: Fields) -> Methods:
    names = {each.name for each in fields}

    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


def _make_repr(fields: Fields) -> Callable[[Any], str]:
    names = [each.name for each in fields if each.repr]

    @recursive_repr()
    def show(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return show


def _make_comparisons(fields: Fields) -> Methods:
    compared = _make_reader(each.name for each in fields if each.compare)
    hashed = _make_reader(
        each.name for each in fields if (each.compare if each.hash is None else each.hash)
    )

    def equals(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return {"__eq__": equals, "__hash__": lambda self: hash(hashed(self))}


def _make_copying(fields: Fields) -> Methods:
    """Return what pickling and copying take where a class is frozen and has no `__dict__`."""
    read = _make_reader(each.name for each in fields)

    def keep(self: Any) -> tuple[Any, ...]:
        return read(self)

    def restore(self: Any, state: tuple[Any, ...]) -> None:
        for each, value in zip(fields, state, strict=True):
            object.__setattr__(self, each.name, value)

    return {"__getstate__": keep, "__setstate__": restore}


def _make_reader(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads these attributes as a tuple."""
    listed = tuple(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    return lambda value: tuple(getattr(value, name) for name in listed)
