"""Functions of a total, or of those of many resamples at once: NumPy is loaded for these alone."""

from __future__ import annotations

import math
from typing import Any

from calipers.support.late import np


def log(value: Any) -> Any:
    """Return the natural logarithm."""
    return math.log(value) if _is_one(value) else np.log(value)


def at_least(least: float, value: Any) -> Any:
    """Return the value, or the least where it is below."""
    return max(least, value) if _is_one(value) else np.maximum(least, value)


def at_most(most: float, value: Any) -> Any:
    """Return the value, or the most where it is above."""
    return min(most, value) if _is_one(value) else np.minimum(most, value)


def _is_one(value: Any) -> bool:
    return isinstance(value, float | int)
