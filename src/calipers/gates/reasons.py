"""Reasons for the verdict of a check, in words."""

from __future__ import annotations

from math import floor, log10

from calipers.gates.verdicts import MeasuredValue, Verdict
from calipers.metrics.thresholds import Scale, Threshold, format_number

_DECIMALS = 2
_DECIMALS_OF_PERCENT = 1
_DECIMALS_OF_SCORES = 4
_MOST_DECIMALS = 12
_DIGITS = 3  # significant digits of a small number
_DIGITS_OF_PERCENT = 2  # of a percentage near 0 or 100
_HUNDRED = 100
_NEGLIGIBLE = 1e-9  # below it: rounding

Further = tuple[int, int, int | None]
"""How many more scenarios would decide it: the fewest, the likely number, the most if known."""


def format_value(value: float, scale: Scale, threshold: Threshold | None = None) -> str:
    """Return a value with a few decimals, or as many more as show on which side it is.

    >>> from calipers.metrics.thresholds import parse_threshold
    >>> rate = Scale(name="pass_rate", unit=None, range=(0, 1), better="higher")
    >>> format_value(0.89999, rate, parse_threshold("≥ 90%", rate))
    '89.999 %'
    """
    factor = _HUNDRED if scale.is_ratio else 1
    for decimals in range(_count_decimals(factor * value, scale), _MOST_DECIMALS):
        rounded = round(factor * value, decimals) / factor
        if threshold is None or threshold.is_met(rounded) == threshold.is_met(value):
            return format_number(rounded, scale)
    return format_number(value, scale)


def _count_decimals(number: float, scale: Scale) -> int:
    if scale.is_ratio:  # 99.97 % is not shown as 100 %
        to_an_end = min(abs(number), abs(_HUNDRED - number))
        return _with_digits(to_an_end, _DECIMALS_OF_PERCENT, _DIGITS_OF_PERCENT)
    fewest = _DECIMALS if scale.unit else _DECIMALS_OF_SCORES
    return _with_digits(abs(number), fewest, _DIGITS)


def _with_digits(size: float, fewest: int, digits: int) -> int:
    """Return how many decimals show so many digits of a size below 1; the fewest otherwise."""
    return max(fewest, digits - 1 - floor(log10(size))) if _NEGLIGIBLE < size < 1 else fewest


def describe_miss(value: float, threshold: Threshold) -> str:
    """Return `54.9 %, required ≥ 80 %`."""
    return f"{format_value(value, threshold.scale, threshold)}, required {threshold}"


def reason(
    threshold: Threshold,
    estimate: MeasuredValue,
    verdict: Verdict,
    further: Further | None,
    *,
    thin: bool,
    confidence: float,
) -> str | None:
    """Return the reason for a verdict, or None for a clear pass."""
    said = []
    if verdict == "fail":
        said.append(describe_miss(estimate.value, threshold))
    if thin or verdict == "inconclusive":
        kind = "inconclusive: " if verdict == "inconclusive" else ""
        said.append(f"{kind}{describe_doubt(further, thin=thin, confidence=confidence)}")
    return "; ".join(said) or None


def describe_doubt(
    further: Further | None, *, thin: bool, confidence: float, of: str = "scenario"
) -> str:
    """Return why a value does not decide, and how many more scenarios, or runs, would."""
    if not thin:
        return "no interval can be computed from these records"
    inside = f"the {_HUNDRED * confidence:g} % interval includes the threshold"
    if further is None:
        return inside
    few, about, many = (None if count is None else f"{_round(count):,}" for count in further)
    more = f"about {about} more {of}{'' if about == '1' else 's'} would decide it"
    if few == about == many:
        return f"{inside}; {more}"
    between = f"{few} or more" if many is None else f"{few} to {many}"
    return f"{inside}; {more} if the value stays the same ({between} within its error)"


def _round(count: int) -> int:
    """Return a count with two significant digits, since no more are known.

    >>> _round(13_119)
    13000
    """
    return round(count, min(0, 1 - floor(log10(count)))) if count else 0
