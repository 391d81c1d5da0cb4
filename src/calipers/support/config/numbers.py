"""Numbers in files that people write."""

from __future__ import annotations

import json
from math import inf, isfinite
from typing import Any

from calipers.support.config.files import shown
from calipers.support.errors import UsageError


def read_nonnegative(value: Any, where: str, *, fix: str) -> float:
    """Return a finite number that is not negative; raise UsageError otherwise, naming the place."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        is_plain = isinstance(value, str | bool | None)
        written = json.dumps(value, ensure_ascii=False) if is_plain else value
        raise UsageError(f"{where} is {shown(written)}, not a number", fix=fix)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise UsageError(f"{where} is {shown(number)}, not a finite number", fix=fix)
    if number < 0:
        raise UsageError(f"{where} is {shown(value)}, negative", fix=fix)
    return number
