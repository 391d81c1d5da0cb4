"""Thresholds as people write them: `85`, `0.85`, "≥ 85%", "< 5000ms", "= 100%".

Every metric has a direction: a bare number is the lowest acceptable value, or the highest.

>>> from math import inf
>>> latency = Scale(name="latency_p95_ms", unit="ms", range=(0, inf), better="lower")
>>> rate = Scale(name="pass_rate", unit=None, range=(0, 1), better="higher")
>>> str(parse_threshold(85, rate)), str(parse_threshold("< 5s", latency))
('≥ 85 %', '< 5,000 ms')
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Literal, get_args

from calipers.metrics import Metric
from calipers.support.config import shown
from calipers.support.errors import UsageError
from calipers.support.lazy_numpy import replace_numpy

Operator = Literal["≥", "≤", ">", "<", "="]
Better = Literal["higher", "lower"] | None

_SPELLINGS: dict[str, Operator] = {
    **{operator: operator for operator in get_args(Operator)},
    ">=": "≥",
    "<=": "≤",
    "==": "=",
}
_WRITTEN = re.compile(
    r"(?P<operator>[≥≤<>=]=?|)\s*(?P<number>[-−+]?(?:\d+(?:\.\d*)?|\.\d+))\s*(?P<unit>[^\d\s]*)",
    re.ASCII,
)
_BETTER_WITH: dict[Operator, Better] = {"≥": "higher", ">": "higher", "≤": "lower", "<": "lower"}
_PERCENT = "%"
_MOST_PERCENT = 100
_IN_UNIT = {("ms", "s"): Decimal(1000), ("s", "ms"): Decimal("0.001")}
_LONGEST = 60
_HALF = Decimal("0.5")  # from here on a bare number may mean this many percent, or this share
_ROUNDING = 1e-12  # of the threshold: what sums of decimal fractions lose, far below one count


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What a threshold applies to: a metric's unit, range and direction."""

    name: str
    unit: str | None
    range: tuple[float, float]
    better: Better

    @property
    def is_ratio(self) -> bool:
        """Return True if percent makes sense."""
        return self.range == (0, 1) and self.unit is None


def read_scale(metric: Metric) -> Scale:
    """Return the scale that a metric declares."""
    return Scale(name=metric.name, unit=metric.unit, range=metric.range, better=metric.better)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A requirement on a value: an operator and a number."""

    operator: Operator
    value: float
    scale: Scale

    @property
    def is_exact(self) -> bool:
        """Return True if only one value meets it: `= 100%`, or `≥` the end of the range."""
        low, high = self.scale.range
        exact = {"=": True, "≥": self.value >= high, "≤": self.value <= low}
        return exact.get(self.operator, False)

    def is_met(self, value: float) -> bool:
        """Return True if the value is on the good side; equal counts are equal here too."""
        return bool(self.holds(value))

    def holds(self, values: Any) -> Any:
        """Return whether it is met, for a number, an array or an expression."""
        slack = _ROUNDING * max(1.0, abs(self.value))
        return _HOLDS[self.operator](values - self.value, slack)

    def __str__(self) -> str:
        return f"{self.operator} {format_number(self.value, self.scale)}"


_HOLDS: dict[Operator, Callable[[Any, float], Any]] = {
    "≥": lambda above, slack: above >= -slack,
    "≤": lambda above, slack: above <= slack,
    ">": lambda above, slack: above > slack,
    "<": lambda above, slack: above < -slack,
    "=": lambda above, slack: abs(above) <= slack,
}


def format_number(value: float, scale: Scale) -> str:
    """Return a number in its scale, as short as it is exact enough: 85 %, 5,000 ms."""
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    if scale.is_ratio:
        return f"{_format_short(100 * value)} %"
    return f"{_format_short(value)} {scale.unit}" if scale.unit else _format_short(value)


def _format_short(value: float) -> str:
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return (text if float(text.replace(",", "")) or not value else f"{value:.3g}").replace("-", "−")


def parse_threshold(written: Any, scale: Scale) -> Threshold:
    """Return the threshold written for such a value; raise UsageError with an example."""
    operator, number, unit = _split_threshold(written, scale)
    _check_direction(operator, written, scale)
    value = _convert_unit(number, unit, written, scale)
    low, high = scale.range
    if not low <= value <= high:
        found, least, most = (format_number(number, scale) for number in (value, low, high))
        raise _make_error(written, f"is {found}, outside {least} to {most}", scale)
    if (operator == ">" and value == high) or (operator == "<" and value == low):
        raise _make_error(written, "can never be met", scale)
    if operator == "=" and value == {"higher": low, "lower": high}.get(scale.better or ""):
        raise _make_error(written, f"asks for the worst: {scale.better} is better", scale)
    if operator is None and scale.better == "lower":
        _refuse_ambiguous(number, unit, scale)
    threshold = Threshold(operator=operator or _choose_operator(scale), value=value, scale=scale)
    refuse_always_met(threshold, scale.range)
    return threshold


def refuse_always_met(threshold: Threshold, possible: tuple[float, float]) -> None:
    """Raise UsageError for a threshold that every possible value meets: it could never fail."""
    if not all(map(threshold.is_met, possible)):
        return
    scale, is_low = threshold.scale, threshold.operator in ("≥", ">")
    operator: Operator = ">" if is_low else "<"
    strict = Threshold(operator=operator, value=possible[not is_low], scale=scale)
    raise UsageError(
        f"{scale.name}: {threshold} can never fail: every value meets it",
        fix=f'write "{strict}" if anything {"above" if is_low else "below"} it is enough, or the '
        "value that is really required; without a requirement, leave the rule out",
    )


def _refuse_ambiguous(number: Decimal, unit: str, scale: Scale) -> None:
    """Raise UsageError for a bare number of a ratio that reads as half a percent or as half."""
    if not scale.is_ratio or unit or not _HALF <= abs(number) <= 1:
        return
    points = f"{number.normalize():f}%"
    share = f"{(100 * number).normalize():f}%"
    raise UsageError(
        f"{scale.name}: a bare {number:f} may mean {points} or {share}",
        fix=f'write "{points}" or "{"< " * (number == 1)}{share}"',  # all of it cannot be passed
    )


def parse_share(written: Any, scale: Scale) -> float:
    """Return a share as people write it: `25`, "25%", 0.25; a bare 0.5 to 1 is refused."""
    operator, number, unit = _split_threshold(written, scale)
    if operator is not None:
        raise UsageError(
            f"{scale.name}: the share {shown(written)} has a comparison in it",
            fix='a share is a plain amount, for example "25%"',
        )
    if number < 0:
        raise UsageError(f"{scale.name}: {shown(written)} is below 0 %", fix='for example "25%"')
    _refuse_ambiguous(number, unit, scale)
    return _convert_unit(number, unit, written, scale)


def parse_margin(written: Any, scale: Scale) -> float:
    """Return the required distance to a baseline: `0.01`, "1%" (a percentage point), "200ms"."""
    operator, number, unit = _split_threshold(written, scale)
    if operator is not None:
        raise UsageError(
            f"{scale.name}: the margin {shown(written)} has a comparison in it",
            fix="a margin is a plain amount, for example 0.01",
        )
    if scale.is_ratio and not unit and abs(number) >= 1:
        raise UsageError(
            f"{scale.name}: a margin of {shown(written)} is all of its range or more",
            fix=f"write {number}% for {number} points of percent",
        )
    _refuse_ambiguous(number, unit, scale)
    margin = _convert_unit(number, unit, written, scale)
    low, high = scale.range
    if margin >= (high - low) * (1 - _ROUNDING):  # an open range has no end
        example = "2%" if scale.is_ratio else format_number((high - low) / 50, scale)
        raise UsageError(
            f"{scale.name}: with a margin of {shown(written)} nothing can be worse: "
            "it is all of the range",
            fix=f'write what may be lost, for example "{example}", or leave the metric out',
        )
    return margin


def _split_threshold(written: Any, scale: Scale) -> tuple[Operator | None, Decimal, str]:
    text, written = "", replace_numpy(written)
    if isinstance(written, int | float | str) and not isinstance(written, bool):
        is_real = isinstance(written, float) and isfinite(written)
        text = f"{Decimal(repr(written)):f}" if is_real else str(written).strip()
    match = _WRITTEN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or (match["operator"] and match["operator"] not in _SPELLINGS):
        raise _make_error(written, "is not a threshold", scale)
    operator = _SPELLINGS[match["operator"]] if match["operator"] else None
    number = Decimal(match["number"].replace("−", "-"))
    if scale.is_ratio and not match["unit"] and number == 1 and "." not in match["number"]:
        raise UsageError(
            f"{scale.name}: a bare 1 may mean 1 % or all",
            fix="write 1% for one in a hundred, or 100% (or 1.0) for all",
        )
    return operator, number, match["unit"]


def _check_direction(operator: Operator | None, written: Any, scale: Scale) -> None:
    if operator is None and scale.better is None:
        raise UsageError(
            f"{scale.name}: neither direction is better, so {shown(written)} alone sets no limit",
            fix=f'write "≥ {shown(written)}" or "≤ {shown(written)}"',
        )
    wanted = _BETTER_WITH.get(operator) if operator else None
    if wanted and scale.better and wanted != scale.better:
        raise _make_error(written, f"asks for worse: {scale.better} is better", scale)


def _convert_unit(number: Decimal, unit: str, written: Any, scale: Scale) -> float:
    if scale.is_ratio:
        if unit not in ("", _PERCENT):
            raise _make_error(written, f"is in {shown(unit)}, and it is a ratio", scale)
        is_percent = unit == _PERCENT or number > 1
        if is_percent and number > _MOST_PERCENT:
            raise _make_error(written, "is above 100 %", scale)
        return float(number / 100 if is_percent else number)
    if unit == _PERCENT and scale.unit is None:
        return float(number / 100)
    if unit and unit != scale.unit and (scale.unit, unit) not in _IN_UNIT:
        is_in = f"it is measured in {scale.unit}" if scale.unit else "it has no unit"
        raise _make_error(written, f"is in {shown(unit)}, and {is_in}", scale)
    return float(number * _IN_UNIT.get((scale.unit or "", unit), Decimal(1)))


def _choose_operator(scale: Scale) -> Operator:
    return "≤" if scale.better == "lower" else "≥"


def _make_error(written: Any, what: str, scale: Scale) -> UsageError:
    return UsageError(f"{scale.name}: {shown(written)} {what}", fix=_show_example(scale))


def _show_example(scale: Scale) -> str:
    sign = _choose_operator(scale)
    if scale.is_ratio:
        return f'for example "{sign} 85%" or 0.85' if sign == "≥" else 'for example "≤ 5%" or 0.05'
    if scale.unit == "ms":
        return f'for example "{sign} 5000ms" or 5000'
    return f'for example "{sign} 10{scale.unit or ""}"'
