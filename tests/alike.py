"""Results that are the same but for the last digits of their numbers."""

from __future__ import annotations

from typing import Any

import pytest


def assert_alike(found: Any, expected: Any) -> None:
    """Fail where two values of nested JSON differ by more than rounding."""
    ours, theirs = _list_leaves(found), _list_leaves(expected)
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        is_number = isinstance(value, float)
        assert ours[name] == (pytest.approx(value, rel=1e-9) if is_number else value), name


def _list_leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested JSON by their paths."""
    if isinstance(value, dict):
        parts = (_list_leaves(each, f"{path}.{key}") for key, each in value.items())
    elif isinstance(value, list):
        parts = (_list_leaves(each, f"{path}.{place}") for place, each in enumerate(value))
    else:
        return {path: value}
    return {name: leaf for part in parts for name, leaf in part.items()}
