"""An axis: the numbers it spans, and the pixel of each."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log

from calipers.reports.charts.vega_lite import Spec
from calipers.support.quick_dataclasses import dataclass

_LOG_FROM = 20.0  # the largest number over the smallest
_ROOM = 0.07  # of the span, free at both ends
_SMALLEST = 1e-9  # the smallest value on a logarithmic axis, which has no 0
_REACH = 0.8  # how many spans of the values an error bar may stretch the axis on each side


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high` over a length in pixels, evenly or by the logarithm."""

    low: float
    high: float
    length: float
    log: bool = False

    def to_pixel(self, value: float) -> float:
        """Return the pixel of a value from the low end; values beyond an end lie there."""
        low, high = self._place(self.low), self._place(self.high)
        inside = min(self.high, max(self.low, value))
        return self.length * (self._place(inside) - low) / (high - low)

    def to_value(self, pixel: float) -> float:
        """Return the value at a pixel."""
        low, high = self._place(self.low), self._place(self.high)
        place = low + (high - low) * pixel / self.length
        return exp(place) if self.log else place

    def _place(self, value: float) -> float:
        return log(value) if self.log else value

    def cuts(self, low: float, high: float) -> bool:
        """Say whether a bar extends beyond the axis."""
        return low < self.low or high > self.high

    def make_scale(self) -> Spec:
        """Return the scale for Vega-Lite."""
        kind = "log" if self.log else "linear"
        return {"type": kind, "domain": [self.low, self.high], "nice": False}


def fit_axis(
    values: Sequence[float],
    bars: Sequence[tuple[float, float]],
    *,
    length: float,
    within: tuple[float, float] | None = None,
) -> Axis:
    """Return an axis for values from 0 on, and for their error bars unless these are huge.

    With `within`, all numbers lie there, so that no bar has to be cut.
    """
    if within is not None:
        return _add_margin(min(low for low, _ in bars), max(high for _, high in bars), length)
    if min(values) >= _SMALLEST and max(values) >= _LOG_FROM * min(values):
        logs = _spread(
            [log(value) for value in values],
            [(log(max(low, _SMALLEST)), log(high)) for low, high in bars],
            length,
            least=-inf,
        )
        return Axis(exp(logs.low), exp(logs.high), length, log=True)
    return _spread(values, bars, length)


def _spread(
    values: Sequence[float],
    bars: Sequence[tuple[float, float]],
    length: float,
    *,
    least: float = 0.0,
) -> Axis:
    span = max(values) - min(values)
    reach = _REACH * span if span else max(high - low for low, high in bars)
    low = max(min(values) - reach, min(low for low, _ in bars))
    high = min(max(values) + reach, max(high for _, high in bars))
    return _add_margin(low, high, length, least=least)


def _add_margin(low: float, high: float, length: float, *, least: float = 0.0) -> Axis:
    """Return an axis with a little margin, less of it below the least possible number."""
    room = _ROOM * ((high - low) or abs(high) * 0.2 or 1.0)
    return Axis(max(low - room, least - room / 4), high + room, length)
