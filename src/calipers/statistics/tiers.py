"""How far systems lie apart that ran the same tasks: bounds of ratios, ranges and variances.

A ratio of two medians is bounded by resampling tasks, so that what makes a task hard for both
systems cancels out; of too many runs for that, by the two medians' own intervals. A range and a
variance of several medians are bounded by intervals that hold for all medians at once: whatever
values lie within them, the range and the variance lie within the bounds.

>>> range_bounds([(1.0, 2.0), (4.0, 6.0)]), variance_bounds([(1.0, 2.0), (4.0, 6.0)])
((2.0, 5.0), (1.0, 6.25))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from calipers.statistics import special
from calipers.statistics.arrays import Floats, Whole
from calipers.statistics.intervals import t_quantile
from calipers.support.quick_dataclasses import dataclass

Bounds = tuple[float, float]

RESAMPLES = 2_000
FEWEST = 5  # tasks: of fewer, resamples are too much alike
_CELLS = 1 << 22  # weights at a time
_TRIED = 12  # values of which every choice of ends is tried
_THIRDS = 100  # that a search leaves out: to the last bit
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Runs:
    """The values of one system's runs, in ascending order, and the number of each one's task."""

    values: Floats
    tasks: Whole


def ratio_bounds(
    runs: Mapping[str, Runs], baseline: str, tasks: int, *, confidence: float, seed: int
) -> dict[str, Bounds]:
    """Return bounds of each system's median over that of the baseline.

    Tasks are resampled, the same ones for all systems (where there is one task, the runs of each
    system), and the percentiles reach as much further as Student's t does beyond the normal
    distribution: Hesterberg (2015), The American Statistician 69, 371. A bound is infinite where
    the baseline's median is 0 in too many resamples.
    """
    single = tasks == 1
    medians = {
        name: _resample_medians(each, 0 if single else tasks, [seed, place if single else 0])
        for place, (name, each) in enumerate(runs.items())
    }
    found: dict[str, Bounds] = {}
    for name, values in medians.items():
        if name == baseline:
            continue
        units = min(len(runs[name].values), len(runs[baseline].values)) if single else tasks
        reach = t_quantile(units, confidence) * sqrt(units / (units - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = values / medians[baseline]
        ratios = np.sort(np.where(medians[baseline] == 0, inf, ratios)[~np.isnan(values)])
        tail = special.ndtr(-reach)
        low, high = np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf")
        found[name] = float(low), float(high)
    return found


def _resample_medians(runs: Runs, tasks: int, seed: Sequence[int]) -> Floats:
    """Return the median in each resample of the tasks, or of the runs if there is one task."""
    codes = runs.tasks if tasks else np.arange(len(runs.values))
    units = tasks or len(runs.values)
    at_once = max(1, _CELLS // max(units, len(codes)))
    rng = np.random.default_rng(seed)
    found = []
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        drawn = rng.integers(0, units, size=(rows, units))
        drawn += np.arange(rows)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        weights = counts.astype(np.int32)
        reached = np.cumsum(np.take(weights, codes, axis=1), axis=1, dtype=np.int32)
        found.append(_take_middle(runs.values, reached))
    return np.concatenate(found)


def _take_middle(values: Floats, reached: NDArray[np.int32]) -> Floats:
    """Return the mean of the two middle values, by how many values are reached; NaN without any."""
    total = reached[:, -1]
    lower = (2 * reached >= total[:, None]).argmax(axis=1)
    upper = (2 * reached > total[:, None]).argmax(axis=1)
    return np.where(total > 0, (values[lower] + values[upper]) / 2, np.nan)


def independent_ratio_bounds(
    median: float, bounds: Bounds, base: float, base_bounds: Bounds
) -> Bounds | None:
    """Return bounds of median / base from the intervals of both; None where base's reaches 0.

    Donner & Zou (2012), Statistical Methods in Medical Research 21, 347: exact where the two are
    independent, too wide where they go up and down together.
    """
    (low, high), (base_low, base_high) = bounds, base_bounds
    if base_low <= 0 or 2 * base <= base_high:
        return None
    product = median * base
    down = low * base_high * (2 * median - low) * (2 * base - base_high)
    up = high * base_low * (2 * median - high) * (2 * base - base_low)
    return (
        (product - sqrt(max(0.0, product**2 - down))) / (base_high * (2 * base - base_high)),
        (product + sqrt(max(0.0, product**2 - up))) / (base_low * (2 * base - base_low)),
    )


def range_bounds(bounds: Sequence[Bounds]) -> Bounds:
    """Return the least and the greatest range (max − min) of values within these bounds."""
    lows, highs = zip(*bounds, strict=True)
    # The greatest difference of two values: one at its upper, one at its lower bound.
    widest = max((top[1] - bottom[0] for top, bottom in permutations(bounds, 2)), default=0.0)
    return max(0.0, max(lows) - min(highs)), widest


def variance_bounds(bounds: Sequence[Bounds]) -> Bounds:
    """Return the least population variance of values within these bounds, and one that none passes.

    A variance is the mean squared distance from the centre where this is least. The greatest one
    has each value at one of its ends; which, is hard to find of many (Ferson et al. 2005, Reliable
    Computing 11, 207). The least over all centres of the greatest distance is near, and not less.
    """
    lows, highs = (np.array(ends, dtype=np.float64) for ends in zip(*bounds, strict=True))

    def nearest(centre: float) -> float:
        return float(np.square(np.clip(centre, lows, highs) - centre).mean())

    def furthest(centre: float) -> float:
        return float(np.square(np.maximum(highs - centre, centre - lows)).mean())

    ends = float(lows.min()), float(highs.max())
    least, n = _find_least(nearest, *ends), len(bounds)
    if n <= _TRIED:
        at_top = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 > 0
        greatest = float(np.where(at_top, highs, lows).var(axis=1).max())
    else:
        greatest = _find_least(furthest, *ends)
    return (0.0 if least <= _ROUNDING * greatest else least), greatest


def _find_least(convex: Callable[[float], float], left: float, right: float) -> float:
    """Return the least value of a convex function between two ends."""
    for _ in range(_THIRDS):
        first, second = left + (right - left) / 3, right - (right - left) / 3
        if convex(first) <= convex(second):
            right = second
        else:
            left = first
    return convex((left + right) / 2)
