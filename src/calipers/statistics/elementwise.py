"""Arithmetic on one number or on a column of them, so that a formula is written once.

What is unknown is NaN here; a condition is a bool or a column of these. Of a column, functions of
`math` are taken number by number: NumPy's own differ in the last digit from machine to machine, and
a group's interval must not depend on how many groups there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from math import nan
from typing import Any

from calipers.support.lazy_numpy import np

_LARGEST = 709.0  # whose exponential is a number


def is_one(value: Any) -> bool:
    """Say whether it is one number, and no column."""
    return isinstance(value, float | int)


def apply(work: Callable[..., Any], *values: Any, dtype: Any = float) -> Any:
    """Return `work` of each number of the columns; numbers among them are the same for all."""
    if all(map(is_one, values)):
        return work(*values)
    rows = next(len(value) for value in values if not is_one(value))
    columns = (repeat(value, rows) if is_one(value) else value.tolist() for value in values)
    return np.fromiter(map(work, *columns), dtype=dtype, count=rows)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Return what stands for true where the condition holds, else the other."""
    if not getattr(condition, "ndim", 0):
        return yes if condition else no
    if _is_text(yes) or _is_text(no):
        found = np.empty(len(condition), dtype=object)
        found[:] = no
        found[condition] = yes if _is_text(yes) else yes[condition]
        return found
    return np.where(condition, yes, no)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def is_single(value: Any) -> bool:
    """Say whether it is one number or text, or null, and no column."""
    return not getattr(value, "ndim", 0)


def is_text(value: Any) -> Any:
    """Say whether a text is there, or where it is in a column of texts and nulls."""
    is_there = value != None  # noqa: E711 (of each in a column)
    return is_there if getattr(value, "ndim", 0) else bool(is_there)


def fill_null(value: Any) -> Any:
    """Return NaN in the place of null."""
    return nan if value is None else value


def is_number(value: Any) -> Any:
    """Say whether a number is known, or where it is in a column."""
    return np.equal(value, value) if getattr(value, "ndim", 0) else value is not None


def is_anywhere(condition: Any) -> bool:
    """Say whether a condition holds for any."""
    return bool(condition.any() if getattr(condition, "ndim", 0) else condition)


def is_everywhere(condition: Any) -> bool:
    """Say whether a condition holds for all."""
    return bool(condition.all() if getattr(condition, "ndim", 0) else condition)


def divide(value: Any, by: Any) -> Any:
    """Return the quotient, NaN where it would be by 0."""
    if is_one(value) and is_one(by):
        return value / by if by else nan
    return np.where(np.equal(by, 0), nan, np.divide(value, by))


def at_least(least: Any, value: Any) -> Any:
    """Return the value, or the least where it is below."""
    return max(least, value) if is_one(value) and is_one(least) else np.maximum(least, value)


def at_most(most: Any, value: Any) -> Any:
    """Return the value, or the most where it is above."""
    return min(most, value) if is_one(value) and is_one(most) else np.minimum(most, value)


def as_float(value: Any) -> Any:
    """Return a whole number, or a column of them, as floats."""
    return float(value) if is_one(value) else np.asarray(value, dtype=np.float64)


def as_whole(value: Any) -> Any:
    """Return a number, or a column of them, as whole numbers."""
    return int(value) if is_one(value) else np.asarray(value, dtype=np.int64)


def sqrt(value: Any) -> Any:
    """Return the square root, which is exact to the last digit everywhere."""
    return math.sqrt(value) if is_one(value) else np.sqrt(value)


def log(value: Any) -> Any:
    """Return the natural logarithm; of a column NaN where there is none."""
    return math.log(value) if is_one(value) else apply(math.log, np.where(value > 0, value, nan))


def exp(value: Any) -> Any:
    """Return the exponential; beyond the largest number, infinity."""
    if is_one(value):
        return math.inf if value > _LARGEST else math.exp(value)
    return apply(math.exp, np.where(value > _LARGEST, math.inf, value))


def hypot(one: Any, other: Any) -> Any:
    """Return √(x² + y²)."""
    return apply(math.hypot, one, other)


def power(value: Any, exponent: float) -> Any:
    """Return a power of numbers that are not negative, or a whole power."""
    return value**exponent if is_one(value) else apply(pow, value, exponent)
