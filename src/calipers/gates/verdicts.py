"""Comparison of a value and its interval with a threshold."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, sqrt
from typing import Literal

from calipers.metrics.thresholds import Threshold
from calipers.statistics.intervals import exact_share, normal_quantile
from calipers.statistics.power import count_tasks_to_decide
from calipers.support.quick_dataclasses import dataclass

Evidence = Literal["point", "interval"]
Verdict = Literal["pass", "fail", "warn", "inconclusive"]


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
    """Say whether the interval includes the threshold: another run might decide otherwise."""
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


def bound_further(
    threshold: Threshold, estimate: MeasuredValue, *, confidence: float = 0.95
) -> tuple[int, int | None] | None:
    """Return the fewest and the most further scenarios that would decide it; None: no number.

    As many as it takes if the value lies one standard error further from the threshold than it
    seems, and one nearer; there is no most where the threshold lies within one standard error.
    """
    if count_further(threshold, estimate, confidence=confidence) is None:
        return None
    error = estimate.stderr or 0.0
    if estimate.is_share:  # ten of ten show no variance; at the threshold there would be some
        mark = threshold.value
        error = max(error, sqrt(max(0.0, mark * (1 - mark)) / estimate.scenarios))
    gap = estimate.value - threshold.value
    error = error if gap > 0 else -error
    further, nearer = gap + error, gap - error
    fewest = _count_to_decide(threshold, estimate, further, confidence)
    if nearer * gap <= 0:
        return fewest or 1, None
    return fewest or 1, _count_to_decide(threshold, estimate, nearer, confidence)


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
