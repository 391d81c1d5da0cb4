"""Simultaneous t intervals and tests for estimates of which only the covariance is known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf

import numpy as np

from calipers.comparisons.rankings import RankedPair, RankedValue
from calipers.scores.options import Options
from calipers.statistics import special
from calipers.statistics.arrays import Floats
from calipers.statistics.intervals import t_quantile
from calipers.statistics.simultaneous import MaxT, pair_deviations

_ONE_UNIT = "a single task or cluster does not show how much others vary"
_NO_SPREAD = "nothing varies from task to task, so the role of chance is unknown"


def estimate_values(
    values: Floats,
    covariance: Floats,
    units: int,
    options: Options,
    *,
    ends: tuple[float, float] = (-inf, inf),
) -> list[RankedValue]:
    """Return each value with an interval that holds for all at once, on so many tasks or clusters.

    No bound lies beyond `ends`.
    """
    level = MaxT.of_each(covariance, seed=options.seed).level(options.confidence)
    found = []
    for value, error in zip(values.tolist(), np.sqrt(np.diag(covariance)).tolist(), strict=True):
        if (reason := _explain_none(error, units)) is not None:
            found.append(RankedValue(value=value, reason=reason))
            continue
        reach = t_quantile(units, level) * error
        low, high = max(ends[0], value - reach), min(ends[1], value + reach)
        found.append(RankedValue(value=value, low=low, high=high))
    return found


def compare_values(
    values: Floats,
    covariance: Floats,
    units: int,
    options: Options,
    *,
    names: Sequence[str],
    test: str,
) -> dict[tuple[int, int], RankedPair]:
    """Return the difference of each pair with its evidence, adjusted for all pairs."""
    together = MaxT.of_pairs(covariance, seed=options.seed)
    level = together.level(options.confidence)
    errors = pair_deviations(covariance)
    found = {}
    for one, other in combinations(range(len(names)), 2):
        difference, error = float(values[one] - values[other]), float(errors[one, other])
        low = high = p_value = None
        reason = _explain_none(error, units)
        if reason is None:
            reach = t_quantile(units, level) * error
            low, high = difference - reach, difference + reach
            p_value = 2 * special.stdtr(units - 1, -abs(difference) / error)
        found[one, other] = RankedPair(
            a=names[one],
            b=names[other],
            difference=difference,
            low=low,
            high=high,
            p_value=p_value,
            p_adjusted=None if p_value is None else together.adjust(p_value),
            test=test,
            reason=reason,
        )
    return found


def _explain_none(error: float, units: int) -> str | None:
    """Say why there is no interval, or None."""
    if units <= 1:
        return _ONE_UNIT
    return None if error > 0 else _NO_SPREAD
