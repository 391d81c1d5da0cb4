"""Why a check came out as it did, in words."""

from __future__ import annotations

from math import floor, log10

from calipers.gates.verdicts import Estimate, Verdict
from calipers.metrics.thresholds import Scale, Threshold, number_text

_DECIMALS = 2
_DECIMALS_OF_SCORES = 4
_MOST_DECIMALS = 12
_DIGITS = 3  # that say something, of a small number
_HUNDRED = 100

Range = tuple[int, int | None]


def value_text(value: float, scale: Scale, threshold: Threshold | None = None) -> str:
    """A value with a few decimals, or as many more as it takes to see on which side it is.

    >>> from calipers.metrics.thresholds import parse_threshold
    >>> rate = Scale(name="pass_rate", unit=None, range=(0, 1), better="higher")
    >>> value_text(0.89999, rate, parse_threshold("≥ 90%", rate))
    '89.999 %'
    """
    factor = _HUNDRED if scale.is_ratio else 1
    for decimals in range(_decimals(factor * value, scale), _MOST_DECIMALS):
        rounded = round(factor * value, decimals) / factor
        if threshold is None or threshold.is_met(rounded) == threshold.is_met(value):
            return number_text(rounded, scale)
    return number_text(value, scale)


def _decimals(number: float, scale: Scale) -> int:
    fewest = _DECIMALS if scale.is_ratio or scale.unit else _DECIMALS_OF_SCORES
    if scale.is_ratio or not 0 < abs(number) < 1:
        return fewest
    return max(fewest, _DIGITS - 1 - floor(log10(abs(number))))


def reason(
    threshold: Threshold, estimate: Estimate, verdict: Verdict, further: Range | None, *, thin: bool
) -> str | None:
    """What there is to say about a verdict; nothing about one that passed clearly.

    `further` is how many more scenarios would settle it: the fewest and, if known, the most.
    """
    scale = threshold.scale
    said = []
    if verdict == "fail":
        said.append(f"{value_text(estimate.value, scale, threshold)} where {threshold} is demanded")
    if thin or verdict == "inconclusive":
        kind = "inconclusive" if verdict == "inconclusive" else "thin evidence"
        said.append(f"{kind}: {_doubt(threshold, estimate, further, thin=thin)}")
    return "; ".join(said) or None


def _doubt(threshold: Threshold, estimate: Estimate, further: Range | None, *, thin: bool) -> str:
    if not thin:
        return "the data give no interval that could settle it"
    scale = threshold.scale
    low, high = (
        "?" if bound is None else value_text(bound, scale)
        for bound in (estimate.low, estimate.high)
    )
    inside = f"{number_text(threshold.value, scale)} lies within {low} to {high}"
    if further is None:
        return inside
    fewest, most = further
    if most is None:
        return f"{inside}; at least {fewest:,} more scenarios would settle it"
    about = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return f"{inside}; about {about} more scenarios would settle it"
