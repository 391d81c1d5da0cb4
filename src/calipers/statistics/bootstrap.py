"""The bootstrap over clusters, and bounds of how far systems lie apart that ran the same tasks.

A resample is a weight per cluster, never a copy of rows. A ratio of two medians is bounded by
resampling tasks, so that what makes a task hard for both systems cancels out; with too many runs
for that, by the intervals of the two medians. A range and a variance of several medians are bounded
by intervals that hold for all medians at once: whatever values lie within them, the range and the
variance lie within the bounds.

>>> range_bounds([(1.0, 2.0), (4.0, 6.0)]), variance_bounds([(1.0, 2.0), (4.0, 6.0)])
((2.0, 5.0), (1.0, 6.25))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from calipers.statistics import special
from calipers.statistics.clusters import Floats, Whole
from calipers.statistics.intervals import Interval, t_quantile

Seed = int | Sequence[int]

_CELLS = 1 << 22  # weights at a time: bounds memory
_CACHED = 1 << 16
_FEWEST = 2
_FEWEST_CARRY = 5
_ONE_SIDED = 0.005
_ROUNDING = 1e-12


def draw_weights(clusters: int, resamples: int, seed: Seed) -> Iterator[Floats]:
    """Yield blocks of resamples: how often each cluster is drawn, a row per resample."""
    for number in range(count_blocks(clusters, resamples)):
        yield draw_block(clusters, resamples, seed, number)


def count_blocks(clusters: int, resamples: int) -> int:
    """Return the number of blocks; each holds as many resamples as fit into a few megabytes."""
    return -(-resamples // _fit_resamples(clusters))


def draw_block(clusters: int, resamples: int, seed: Seed, number: int) -> Floats:
    """Return one block, from the seed and its number alone, so that blocks need no order.

    In memory the resamples of a cluster stand side by side, as sums over clusters want them.
    """
    start = number * _fit_resamples(clusters)
    rows = min(_fit_resamples(clusters), resamples - start)
    parts = (seed,) if isinstance(seed, int) else seed  # NumPy 2.5 takes no nested sequences
    draws = np.random.default_rng([*parts, number]).integers(
        0, clusters, size=(rows, clusters), dtype=np.int64
    )
    counts = np.empty((clusters, rows))
    at_once = max(
        1, _CACHED // clusters
    )  # counts that are not in the cache take four times as long
    for begin in range(0, rows, at_once):
        some = draws[begin : begin + at_once]
        some += clusters * np.arange(len(some))[:, None]
        counted = np.bincount(some.ravel(), minlength=some.size)
        counts[:, begin : begin + at_once] = counted.reshape(some.shape).T
    return counts.T


def _fit_resamples(clusters: int) -> int:
    return max(1, _CELLS // clusters)


def bca(value: float, resampled: Floats, influences: Floats, confidence: float) -> Interval | None:
    """Return the bias-corrected and accelerated interval (Efron 1987), expanded; None if undefined.

    Resamples of C clusters vary by (C − 1) / C of what they should, and do not know that their
    spread is itself estimated: the normal quantile becomes t · √(C / (C − 1)) (Hesterberg 2015, The
    American Statistician 69, 371).
    `influences` are those of the clusters on the value; their skewness is the acceleration. Where
    nearly all resamples fall on one side of the value, as those of an entropy of many answers do,
    they show a bias that this cannot correct: the interval is then the basic one, reflected at the
    value. None where resampling says nothing: one cluster, or the same value every time.
    """
    found = np.sort(resampled[np.isfinite(resampled)])
    if found.size < _FEWEST or influences.size < _FEWEST:
        return None
    largest = float(max(abs(found[0]), abs(found[-1]), abs(value)))
    rounding = _ROUNDING * largest  # values added up in another order are still the same
    if found[-1] - found[0] <= 2 * rounding:
        return None
    same = np.abs(found - value) <= rounding
    below = float(np.mean(np.where(same, 0.5, found < value)))
    stderr = float((found / largest).std(ddof=1)) * largest  # no square is beyond a double
    clusters = influences.size
    reach = special.stdtrit(clusters - 1, (1 + confidence) / 2) * sqrt(clusters / (clusters - 1))
    if min(below, 1 - below) < _ONE_SIDED:
        ends = np.quantile(found, [special.ndtr(reach), special.ndtr(-reach)])
        low, high = map(float, 2 * value - ends)
        return Interval(low=min(value, low), high=max(value, high), stderr=stderr)
    bias = special.ndtri(below)
    tails = np.array([-reach, reach]) + bias
    left = 1 - _compute_acceleration(influences) * tails
    # A skewness that leaves nothing sends the bound to the end of what was drawn.
    moved = np.divide(tails, left, out=np.copysign(np.inf, tails), where=left > 0)
    shares = [special.ndtr(bias + each) for each in moved]
    low, high = np.quantile(found, shares, method="inverted_cdf")
    return Interval(low=float(low), high=float(high), stderr=stderr)


def explain_too_few(influences: Floats) -> str | None:
    """Return why there are too few influential clusters to resample, or None if there are enough.

    As many clusters as carry the variance, (Σ influence²)² / Σ influence⁴, must be at least five:
    where nearly all rows are right, or one is a thousand times as large as the others, resamples
    are made of what was seen, and nothing of what may yet be seen (docs/intervals.md has figures).
    """
    largest = float(np.abs(influences).max()) if influences.size else 0.0
    if not np.isfinite(largest):
        return "values are too large to resample"
    if influences.size < _FEWEST or not largest:
        return "nothing varies from cluster to cluster"
    squares = np.square(influences / largest)
    carried = float(squares.sum() ** 2 / np.square(squares).sum())
    if carried < _FEWEST_CARRY:
        return f"fewer than {_FEWEST_CARRY} clusters carry the variance"
    return None


def _compute_acceleration(influences: Floats) -> float:
    """Return a sixth of the skewness of the clusters' influences."""
    largest = float(np.abs(influences).max())
    if not largest:
        return 0.0
    scaled = influences / largest
    return float(np.sum(scaled**3) / (6 * np.sum(scaled**2) ** 1.5))


Bounds = tuple[float, float]

RESAMPLES = 2_000
FEWEST = 5  # tasks: of fewer, resamples are too much alike
_CELLS_AT_ONCE = 1 << 22  # weights at a time
_TRIED = 12  # values of which every choice of ends is tried
_THIRDS = 100  # that a search leaves out: to the last bit


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
        name: _resample_medians(
            each, 0 if single else tasks, [seed, int(single and name != baseline)]
        )
        for name, each in runs.items()
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
    at_once = max(1, _CELLS_AT_ONCE // max(units, len(codes)))
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
