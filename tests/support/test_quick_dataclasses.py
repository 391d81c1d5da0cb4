"""Dataclasses that are made quickly are the standard library's in all but the time."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from calipers.support.quick_dataclasses import dataclass

SHAPES = [
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "kw_only": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"slots": True},
    {},
]
Make = Callable[..., Any]


def make_class(make: Make, shape: dict[str, bool]) -> Any:
    @make(**shape)
    class Told:
        """What was told."""

        kind: ClassVar[str] = "told"
        name: str
        size: int = 3
        parts: tuple[int, ...] = field(default_factory=lambda: (1, 2), repr=False)
        notes: dict[str, int] = field(default_factory=dict, hash=False)
        seen: int = field(default=0, compare=False)

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError("a size is not negative")

    return Told


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: " ".join(shape) or "plain")
def test_a_class_does_what_the_librarys_does(shape: dict[str, bool]) -> None:
    ours, theirs = make_class(dataclass, shape), make_class(dataclasses.dataclass, shape)
    assert (ours.__doc__, ours.kind) == (theirs.__doc__, theirs.kind)
    assert ours.__match_args__ == theirs.__match_args__
    assert str(ours.__dataclass_params__) == str(theirs.__dataclass_params__)
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    for given in ({"name": "a"}, {"name": "b", "size": 4, "parts": (), "notes": {"x": 1}}):
        one, other = ours(**given), theirs(**given)
        assert asdict(one) == asdict(other)
        assert asdict(replace(one, size=9)) == asdict(replace(other, size=9))
        if shape.get("repr", True):
            assert repr(one) == repr(other)
        same, differs = ours(**{**given, "seen": 1}), ours(**{**given, "size": 99})
        assert (one == same) is shape.get("eq", True)
        assert one != differs
        assert one != other
        assert asdict(copy.copy(one)) == asdict(copy.deepcopy(one)) == asdict(one)
        if shape.get("frozen") and shape.get("eq", True):
            assert hash(one) == hash(other) == hash(same)
    with pytest.raises(ValueError, match="a size is not negative"):
        ours(name="a", size=-1)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: " ".join(shape) or "plain")
@pytest.mark.parametrize("given", [{}, {"name": "a", "much": 1}])
def test_wrong_arguments_are_told_alike(shape: dict[str, bool], given: dict[str, Any]) -> None:
    said = []
    for make in (dataclass, dataclasses.dataclass):
        with pytest.raises(TypeError) as raised:
            make_class(make, shape)(**given)
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: " ".join(shape) or "plain")
def test_the_first_instances_are_as_the_later_ones(shape: dict[str, bool]) -> None:
    ours, theirs = make_class(dataclass, shape), make_class(dataclasses.dataclass, shape)
    wrong: tuple[dict[str, Any], ...] = ({}, {"name": "a", "much": 1})
    for number in range(12):
        given = {"name": "a", "size": number} if number % 2 else {"name": "a", "notes": {"n": 1}}
        assert asdict(ours(**given)) == asdict(theirs(**given))
        if not shape.get("kw_only"):
            assert asdict(ours("b", number, notes={})) == asdict(theirs("b", number, notes={}))
            wrong = (*wrong, {"name": "a"})  # given by place as well
        for arguments in wrong:
            place = () if len(arguments) != 1 else ("a",)
            with pytest.raises(TypeError) as one:
                ours(*place, **arguments)
            with pytest.raises(TypeError) as other:
                theirs(*place, **arguments)
            assert str(one.value) == str(other.value)


def test_the_first_instances_share_no_default() -> None:
    ours = make_class(dataclass, {})
    first, second = ours("a"), ours("b")
    first.notes["x"] = 1
    assert second.notes == {}


def test_what_is_not_frozen_can_be_changed_and_not_be_hashed() -> None:
    value = make_class(dataclass, {"slots": True})("a")
    value.size = 9
    assert value.size == 9
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


@pytest.mark.parametrize("slots", [True, False])
def test_what_is_frozen_stays_as_it_is(*, slots: bool) -> None:
    value = make_class(dataclass, {"frozen": True, "slots": slots})("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del value.name


@pytest.mark.parametrize("slots", [True, False])
def test_a_frozen_class_and_one_that_is_not_do_not_inherit_from_each_other(*, slots: bool) -> None:
    for frozen in (True, False):
        base = make_class(dataclass, {"frozen": frozen, "slots": slots})
        with pytest.raises(TypeError, match="cannot inherit"):
            dataclass(frozen=not frozen, slots=slots)(type("More", (base,), {}))


@pytest.mark.parametrize("make", [dataclass, dataclasses.dataclass])
def test_a_subclass_may_be_made_by_either(make: Make) -> None:
    @make(frozen=True)
    class More(make_class(dataclass, {"frozen": True})):  # type: ignore[misc]
        more: int = 5

    value = More("a", more=6)
    assert (value.name, value.more, value.size) == ("a", 6, 3)
    assert value == replace(value) != replace(value, more=7)
    with pytest.raises(FrozenInstanceError):
        value.size = 4


def test_a_plain_subclass_has_attributes_of_its_own() -> None:
    class Plain(make_class(dataclass, {"frozen": True})):  # type: ignore[misc]
        pass

    value = Plain("a")
    value.other = 1
    assert value.other == 1
    with pytest.raises(FrozenInstanceError):
        value.name = "b"


def test_methods_of_its_own_are_kept() -> None:
    @dataclass(frozen=True)
    class Own:  # noqa: PLW1641 (the decorator adds it)
        value: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == hash((1,))  # as the library: `__eq__` alone takes no hash away


def test_what_is_not_to_be_hashed_is_not() -> None:
    @dataclass(frozen=True)
    class Unhashable:
        value: int
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="unhashable"):
        hash(Unhashable(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Found by its name, as pickling takes it."""

    name: str
    inner: Kept | None = None


def test_it_is_pickled_and_validated() -> None:
    value = Kept(name="a", inner=Kept(name="b"))
    assert pickle.loads(pickle.dumps(value)) == value
    assert TypeAdapter(Kept).validate_python(asdict(value)) == value


@pytest.mark.parametrize("make", [dataclass, dataclasses.dataclass])
def test_what_is_rarely_asked_for_is_the_librarys(make: Make) -> None:
    class Value:
        value: int
        later: int = field(init=False, default=3)

    ordered: Any = make(order=True)(type("Ordered", (), dict(vars(Value))))
    hashed: Any = make(unsafe_hash=True)(type("Hashed", (), dict(vars(Value))))
    assert ordered(1) < ordered(2)
    assert hashed(1).later == 3
    assert hash(hashed(1)) == hash(hashed(1))
    with pytest.raises(TypeError):
        ordered(1, later=4)


def test_without_fields_and_without_brackets() -> None:
    @dataclass
    class Nothing:
        pass

    @dataclass(frozen=True)
    class Frozen:
        pass

    assert Nothing() == Nothing()
    assert Frozen() == Frozen()
    assert repr(Frozen()).endswith("Frozen()")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the library is quick by itself")
def test_it_takes_less_time() -> None:
    code = """
from time import process_time
import dataclasses
from calipers.support import quick_dataclasses
def spend(make):
    started = process_time()
    for _ in range(100):
        namespace = {"__annotations__": dict.fromkeys("abcdef", "int"), "__doc__": "Six."}
        make(type("Six", (), namespace), frozen=True, slots=True, kw_only=True)
    return process_time() - started
makers = (quick_dataclasses.dataclass, dataclasses.dataclass)
print(*(min(spend(make) for _ in range(3)) for make in makers))
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours, theirs = map(float, made.stdout.split())
    assert ours < 0.5 * theirs
