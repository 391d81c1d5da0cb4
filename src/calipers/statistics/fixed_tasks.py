"""The interval of a value on these very tasks: only their runs might have come out otherwise."""

from __future__ import annotations

from math import sqrt

from calipers.statistics.intervals import Interval, score_bounds
from calipers.statistics.paired_means import t_reach


def fixed_interval(
    value: float,
    variance: float,
    *,
    rows: int,
    freedom: int,
    bounds: tuple[float, float] | None,
    confidence: float,
) -> Interval:
    """Return the interval of a mean on fixed tasks, given the variance of its runs.

    Between bounds it is Wilson's, of as many rows as would vary so much; few rows unlike the others
    tell little of that, and count as if one more had told the most, that each stands for itself.

    Args:
        value: the mean.
        variance: of the mean, from the spread of runs within tasks.
        rows: how many runs there are in all.
        freedom: how many of them are not the first of their task.
        bounds: what values can be; None where they have no bounds.
        confidence: of the interval.

    >>> found = fixed_interval(1.0, 0.0, rows=80, freedom=60, bounds=(0, 1), confidence=0.95)
    >>> round(found.low, 3), found.high
    (0.952, 1.0)
    """
    z = t_reach(freedom, confidence)
    stderr = sqrt(variance)
    if bounds is None:
        return Interval(low=value - z * stderr, high=value + z * stderr, stderr=stderr)
    low, high = bounds
    share, reach = (value - low) / (high - low), high - low
    possible = share * (1 - share)
    worst = 1 / rows
    seen = variance / reach**2 / possible if possible > 0 else 0.0
    unlike = rows * min(share, 1 - share)
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    least, most = score_bounds(share, size, z)
    return Interval(
        low=low + reach * min(share, least), high=low + reach * max(share, most), stderr=stderr
    )
