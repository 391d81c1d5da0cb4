"""The interval of a median, by two of the values themselves."""

from __future__ import annotations

from calipers.engines.per_task import TASKS
from calipers.metrics.cost.tiers import MEDIANS, composite_score
from calipers.metrics.declare.declaration import Rank, Totals
from calipers.metrics.declare.description import describe
from calipers.scores.results import BoundedValue

_COMPOSITE = next(rank for rank in MEDIANS if rank.feature is composite_score)


def bound_median(rank: Rank, totals: Totals) -> tuple[float, float] | None:
    """Return the order statistics around a median; None with too few values."""
    low, high = totals.get(rank.low_name), totals.get(rank.high_name)
    found = describe(rank.feature.name, totals)
    if low is None or high is None or found is None:
        return None
    median = found["median"]
    assert median is not None
    return min(low, median), max(high, median)


def measure_median_composite(totals: Totals) -> BoundedValue | None:
    """Return the median composite with its interval; None if no run has a composite."""
    found = describe(composite_score.name, totals)
    if found is None:
        return None
    bounds = bound_median(_COMPOSITE, totals)
    if bounds is None:
        return BoundedValue(
            value=found["median"],
            reason=f"{found['count']} runs are too few for an interval of the median",
        )
    one = " over the runs of one task" if totals.get(TASKS) == 1 and found["count"] != 1 else ""
    return BoundedValue(
        value=found["median"], low=bounds[0], high=bounds[1], interval=f"order statistics{one}"
    )
