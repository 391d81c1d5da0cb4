"""A value and its interval as a small bar: their positions on the metric's scale, in percent."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.metrics import Metric
    from calipers.scores.results import Measured

_ROOM = 1.1  # beyond the largest number, where the metric itself has no end


@dataclass(frozen=True, slots=True)
class Bar:
    """Places from 0 to 100 on the scale."""

    value: float
    low: float
    width: float


def choose_scale(metric: Metric, several: Iterable[Measured]) -> tuple[float, float]:
    """Return the range that the bars of these values have to show."""
    low, high = metric.range
    ends = [
        end
        for each in several
        for end in (each.value, each.low, each.high)
        if end is not None and isfinite(end)
    ]
    low = low if isfinite(low) else min(ends, default=0.0)
    high = high if isfinite(high) else _ROOM * max(ends, default=1.0)
    return (low, high) if high > low else (low, low + 1)


def make_bar(measured: Measured, scale: tuple[float, float]) -> Bar | None:
    """Return the bar; None without a finite value."""
    if measured.value is None or not isfinite(measured.value):
        return None
    low = measured.value if measured.low is None else measured.low
    high = measured.value if measured.high is None else measured.high
    start, end = _place(low, scale), _place(high, scale)
    return Bar(_place(measured.value, scale), start, round(end - start, 2))


def _place(value: float, scale: tuple[float, float]) -> float:
    low, high = scale
    return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)
