"""Groups by their fields, in the order to show them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_DIGITS = re.compile(r"([0-9]{1,18})")


def sort_keys(groups: Iterable[str], by: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each group's fields by the text that stands for it, in display order."""
    keys: dict[str, dict[str, Any]] = {text: json.loads(text) for text in groups}
    whole = [name for name in by if _is_whole(key[name] for key in keys.values())]
    for key in keys.values():
        key |= {name: int(key[name]) for name in whole if isinstance(key[name], float)}
    return dict(sorted(keys.items(), key=lambda item: [_sort_key(item[1][name]) for name in by]))


def _is_whole(values: Iterable[Any]) -> bool:
    """Say whether all of a field's numbers are whole, so that 1.0 may be shown as 1."""
    numbers = [value for value in values if isinstance(value, float)]
    return bool(numbers) and all(value.is_integer() for value in numbers)


def split_natural(text: str) -> tuple[Any, ...]:
    """Return the sort key of a text in which numbers count as such: T2 before T10.

    >>> sorted(["T10", "T2", "T1"], key=split_natural)
    ['T1', 'T2', 'T10']
    """
    parts = _DIGITS.split(text)
    return (*(int(part) if place % 2 else part for place, part in enumerate(parts)), "", text)


def _sort_key(value: Any) -> tuple[int, float, tuple[Any, ...]]:
    """Return the sort key of a value: numbers by size, then texts, nulls last."""
    if value is None:
        return 2, 0.0, ()
    return (1, 0.0, split_natural(value)) if isinstance(value, str) else (0, value, ())
