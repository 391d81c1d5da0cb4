"""Comparison of a value and its interval with a threshold, and the reason in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil, floor, log10, sqrt
from typing import Literal

from calipers.metrics.thresholds import Scale, Threshold, format_number
from calipers.statistics.intervals import exact_share, normal_quantile
from calipers.statistics.power import count_tasks_to_decide

Evidence = Literal["point", "interval", "guarantee"]
Verdict = Literal["pass", "fail", "warn", "inconclusive"]
Further = tuple[int, int, int | None]
"""How many more scenarios would decide it: the fewest, the likely number, the most if known."""

_DECIMALS = 2
_DECIMALS_OF_PERCENT = 1
_DECIMALS_OF_SCORES = 4
_MOST_DECIMALS = 12
_DIGITS = 3  # significant digits of a small number
_DIGITS_OF_PERCENT = 2  # of a percentage near 0 or 100
_HUNDRED = 100
_NEGLIGIBLE = 1e-9  # below it: rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredValue:
    """A measured value, its interval where there is one, and how many scenarios it stands on."""

    value: float
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    scenarios: int = 0
    worth: float | None = None  # of a share: as many independent rows would say as much
    is_share: bool = False  # of rows that are right or wrong: it varies most in the middle


def widen_bounds(
    threshold: Threshold, estimate: MeasuredValue, confidence: float = 0.95
) -> MeasuredValue:
    """Return the estimate with wider bounds if its own would decide on a share too soon.

    Wilson's interval covers 95 % on average over shares. Near 0 and 1 and with few scenarios it
    leaves the true share out on one side in up to 8 % of runs. What it would decide stands only
    where the exact interval says so as well: then at most 2.5 % are failed that should not be.
    """
    if not estimate.is_share or judge_value(threshold, estimate, "interval") == "inconclusive":
        return estimate
    low, high = exact_share(estimate.value, _count_worth(estimate), confidence)
    wider = replace(
        estimate,
        low=low if estimate.low is None else min(low, estimate.low),
        high=high if estimate.high is None else max(high, estimate.high),
    )
    return estimate if judge_value(threshold, wider, "interval") != "inconclusive" else wider


def _count_worth(estimate: MeasuredValue) -> float:
    """Return the effective number of independent rows; for identical rows, one per scenario.

    Scenarios with many runs beside others with few are worth less than their number.
    """
    possible = estimate.value * (1 - estimate.value)
    if not estimate.stderr or not possible:
        seen = float(estimate.scenarios)
    else:
        seen = possible / estimate.stderr**2 + 1
    return seen if estimate.worth is None else min(seen, estimate.worth)


def judge_value(threshold: Threshold, estimate: MeasuredValue, evidence: Evidence) -> Verdict:
    """Return pass, fail or, if only the whole interval may decide, inconclusive.

    A requirement of 100 % (or 0 %) is one on exactly these scenarios: one that failed breaks it,
    and no interval could ever meet it. It is always decided by counting.
    """
    if evidence == "point" or threshold.is_exact:
        return "pass" if threshold.is_met(estimate.value) else "fail"
    worst, best = estimate.low, estimate.high
    if threshold.operator in ("≤", "<"):
        worst, best = best, worst
    if worst is not None and threshold.is_met(worst):
        return "pass"
    return "fail" if best is not None and not threshold.is_met(best) else "inconclusive"


def is_thin(threshold: Threshold, estimate: MeasuredValue) -> bool:
    """Return True if the interval includes the threshold: another run might decide otherwise."""
    if threshold.is_exact:
        return False
    met = threshold.is_met(estimate.value)
    bounds = (estimate.low, estimate.high)
    return any(bound is not None and threshold.is_met(bound) != met for bound in bounds)


def count_further(
    threshold: Threshold, estimate: MeasuredValue, *, confidence: float = 0.95
) -> int | None:
    """Return how many more scenarios would decide it if the value is right; None: no number.

    So many that an interval around such a value leaves the threshold out with a power of 80 %.
    """
    spread = estimate.stderr
    if spread is None or not estimate.scenarios or estimate.value == threshold.value:
        return None
    here = spread**2 * estimate.scenarios
    there = here
    if estimate.is_share:
        share, mark = estimate.value, threshold.value
        # Ten of ten show no variance; at the threshold there would be some.
        there = here / (share * (1 - share)) * mark * (1 - mark) if here else mark * (1 - mark)
    needed = _count_until_seen(threshold, estimate, confidence)
    if there:
        distance = estimate.value - threshold.value
        settled = count_tasks_to_decide(distance, here=here, there=there, confidence=confidence)
        needed = max(needed, settled)
    return max(1, needed - estimate.scenarios) if needed else None


def _count_until_seen(threshold: Threshold, estimate: MeasuredValue, confidence: float) -> int:
    """Return how many scenarios it takes until what was not seen cannot reach the threshold.

    Where values lie close together the interval is as wide as what may be unseen, and that falls
    like z² / (n + z²).
    """
    below = threshold.value < estimate.value
    bound = estimate.low if below else estimate.high
    if estimate.is_share or bound is None or estimate.stderr is None:
        return 0
    z = normal_quantile(confidence)
    unseen = sqrt(max(0.0, (bound - estimate.value) ** 2 - (z * estimate.stderr) ** 2))
    times = unseen / abs(threshold.value - estimate.value)
    return max(0, ceil(times * (estimate.scenarios + z * z) - z * z))


def find_further(
    threshold: Threshold, estimate: MeasuredValue, *, confidence: float = 0.95
) -> Further | None:
    """Return how many further scenarios would decide it; None: no number.

    The fewest and the most are as many as it takes if the value lies one standard error further
    from the threshold than it seems, and one nearer; there is no most where the threshold lies
    within one standard error.
    """
    likely = count_further(threshold, estimate, confidence=confidence)
    if likely is None:
        return None
    error = estimate.stderr or 0.0
    if estimate.is_share:  # ten of ten show no variance; at the threshold there would be some
        mark = threshold.value
        error = max(error, sqrt(max(0.0, mark * (1 - mark)) / estimate.scenarios))
    gap = estimate.value - threshold.value
    error = error if gap > 0 else -error
    further, nearer = gap + error, gap - error
    fewest = _count_to_decide(threshold, estimate, further, confidence) or 1
    if nearer * gap <= 0:
        return fewest, likely, None
    return fewest, likely, _count_to_decide(threshold, estimate, nearer, confidence)


def _count_to_decide(
    threshold: Threshold, estimate: MeasuredValue, gap: float, confidence: float
) -> int | None:
    """Return how many more scenarios decide it if the value is that far from the threshold."""
    value, stderr = threshold.value + gap, estimate.stderr or 0.0
    if estimate.is_share:
        value = min(1.0, max(0.0, value))
        seen = estimate.value * (1 - estimate.value)
        if seen and value in (0.0, 1.0):  # as ten of ten
            stderr = 0.0
        elif seen:
            stderr *= sqrt(value * (1 - value) / seen)
    moved = replace(estimate, value=value, stderr=stderr)
    return count_further(threshold, moved, confidence=confidence)


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


def explain_verdict(
    threshold: Threshold,
    estimate: MeasuredValue,
    verdict: Verdict,
    further: Further | None,
    *,
    thin: bool,
    confidence: float,
) -> str | None:
    """Return the reason for a verdict, or None for a clear pass."""
    reasons = []
    if verdict == "fail":
        reasons.append(describe_miss(estimate.value, threshold))
    if thin or verdict == "inconclusive":
        kind = "inconclusive: " if verdict == "inconclusive" else ""
        reasons.append(f"{kind}{describe_doubt(further, thin=thin, confidence=confidence)}")
    return "; ".join(reasons) or None


def describe_doubt(
    further: Further | None, *, thin: bool, confidence: float, of: str = "scenario"
) -> str:
    """Return why a value does not decide, and how many more scenarios, or runs, would."""
    if not thin:
        return "no interval can be computed from these records"
    inside = f"the {_HUNDRED * confidence:g} % interval includes the threshold"
    if further is None:
        return inside
    few, about, many = (None if count is None else f"{round_count(count):,}" for count in further)
    more = f"about {about} more {of}{'' if about == '1' else 's'} would decide it"
    if few == about == many:
        return f"{inside}; {more}"
    between = f"{few} or more" if many is None else f"{few} to {many}"
    return f"{inside}; {more} if the value stays the same ({between} within its error)"


_DOUBT = re.compile(
    r"(?:^|; )(?:inconclusive: )?the [\d.]+ % interval includes the threshold"
    r"(?:; about [\d,]+ more \w+ would decide it"
    r"(?: if the value stays the same \([^)]*\))?)?"
)


def remove_doubt(reason: str) -> str:
    """Return a reason without what `describe_doubt` says, where a table says it once for all.

    >>> doubt = describe_doubt((10, 85, None), thin=True, confidence=0.95)
    >>> remove_doubt(f"80 %, required ≥ 90 %; {doubt}; 2 runs are missing")
    '80 %, required ≥ 90 %; 2 runs are missing'
    """
    return _DOUBT.sub("", reason).removeprefix("; ")


def round_count(count: int) -> int:
    """Return a count with two significant digits, since no more are known.

    >>> round_count(13_119)
    13000
    """
    return round(count, min(0, 1 - floor(log10(count)))) if count else 0
