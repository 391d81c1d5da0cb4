"""A result is read back from its JSON as it was, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from calipers.support.strict_json import restore, restore_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    at: tuple[float, int]
    names: Mapping[str, str | None]
    kind: Literal["a", "b"] = "a"
    bound: float | None = None


def point(**changed: Any) -> Point | None:
    found = {"at": [1, 2], "names": {"x": None}, **changed}
    return restore(Point, found, lambda of: {**of, "bound": restore_number(of.get("bound"))})


def test_it_comes_back() -> None:
    assert point() == Point(at=(1, 2), names={"x": None})
    assert point(bound="-Infinity") == Point(at=(1, 2), names={"x": None}, bound=float("-inf"))
    assert point(of_a_later_version=1) == point()


@pytest.mark.parametrize(
    "changed",
    [
        {"at": [1, 2.5]},
        {"at": [1]},
        {"at": ["1", 2]},
        {"at": [True, 2]},
        {"names": {"x": 3}},
        {"names": None},
        {"kind": "c"},
        {"bound": "0.5"},
        {"bound": "NaN"},
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    assert point(**changed) is None


def test_a_shape_that_something_is_missing_from_is_refused() -> None:
    assert restore(Point, {}, lambda of: {"at": of["at"]}) is None
