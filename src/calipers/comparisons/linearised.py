"""Linearised error of a metric without a value per task, over many tasks.

Resampling would cost resamples × tasks. How far a task moves the value is known up to a factor
from the metric's declared influence; the factor is found by changing the tasks' weights slightly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from calipers.comparisons.results import MetricComparison
from calipers.engines.resampling import measure_influences
from calipers.engines.weighted_values import WeightedValues
from calipers.metrics.declare.declaration import Rank
from calipers.statistics.arrays import Floats
from calipers.statistics.bootstrap import explain_too_few
from calipers.statistics.paired import student

MANY = 2_000  # units from which on the linearised error is as good as a resampled one
_NUDGE = 1e-4  # how much the weights of tasks change to find the factor


def linearize(
    found: MetricComparison, effects: Sequence[Floats | None], confidence: float
) -> MetricComparison | None:
    """Return the comparison with an interval and a test from the linearised effects of the units.

    None if the effects are unknown, or if too few units carry the variance of the difference.
    """
    base, candidate = effects
    if base is None or candidate is None or explain_too_few(candidate - base):
        return None
    assert found.difference is not None
    moved = candidate - base
    low, high, p_value, reason = student(
        found.difference,
        stderr := float(np.sqrt(moved.size * moved.var(ddof=1))),
        moved.size - 1,
        largest=max(abs(found.base or 0.0), abs(found.candidate or 0.0)),
        confidence=confidence,
    )
    return replace(
        found,
        low=low,
        high=high,
        stderr=stderr,
        interval="linearised t",
        p_value=p_value,
        test="linearised paired t",
        reason=reason,
    )


def find_effects(rows: pl.DataFrame, values: WeightedValues) -> Floats | None:
    """Return how far each unit moves the value of one metric, its rows coded by unit.

    None for few units, and for a metric whose influence is not declared or is zero everywhere.
    """
    [metric] = values.metrics
    units = values.clusters
    if units < MANY or metric.influence is None:
        return None
    effects = measure_influences(rows, metric, values.totals(), units)
    largest = float(np.abs(effects).max())
    if not np.isfinite(largest) or not largest:
        return None
    if isinstance(metric.aggregate, Rank):
        factor = -_measure_slope(rows[metric.aggregate.feature.name], metric.aggregate.percent)
        return factor * effects if factor else None
    direction = effects / largest
    nudged = values(np.vstack([1 + _NUDGE * direction, 1 - _NUDGE * direction]))[metric.name]
    factor = float(nudged[0] - nudged[1]) / (2 * _NUDGE * float(np.square(direction).sum()))
    return factor * direction if np.isfinite(factor) and factor else None


def _measure_slope(column: pl.Series, percent: int) -> float:
    """Return how far a quantile moves when one row more is below it: Woodruff (1952).

    From the values two standard errors of the share below and above it.
    """
    known = np.sort(column.drop_nulls().to_numpy())
    share = percent / 100
    reach = 2 * np.sqrt(share * (1 - share) / known.size)
    bounds = np.clip([share - reach, share + reach], 0, 1)
    low, high = np.quantile(known, bounds, method="inverted_cdf")
    return float((high - low) / np.ptp(bounds) / known.size)
