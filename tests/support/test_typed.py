"""A value read back from a file fits its annotation, or is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from calipers.support.typed import fits


@dataclass(frozen=True)
class Point:
    at: tuple[float, int]
    names: Mapping[str, str | None]
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (1, float, True),
        (1.0, int, False),
        (True, float, False),
        (None, str | None, True),
        (None, None, True),
        ([], Any, True),
        ((), tuple[int, ...], True),
        ((1, "x"), tuple[int, ...], False),
        ([1], tuple[int, ...], False),
        ([1], Sequence[int], True),
        ("ab", Sequence[str], False),
        (Point((1, 2), {"x": None}), Point, True),
        (Point((1, 2.5), {}), Point, False),  # type: ignore[arg-type]
        (Point((1, 2), {"x": 3}), Point, False),  # type: ignore[dict-item]
        (Point((1, 2), {}, "c"), Point, False),  # type: ignore[arg-type]
        ({"at": (1, 2)}, Point, False),
    ],
)
def test_only_what_the_annotation_says_fits(value: Any, hint: Any, *, expected: bool) -> None:
    assert fits(value, hint) is expected
