"""The bootstrap over clusters: a resample is a weight per cluster, never a copy of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np

from calipers.statistics import special
from calipers.statistics.arrays import Floats
from calipers.statistics.intervals import Interval

Seed = int | Sequence[int]

_CELLS = 1 << 22  # weights at a time: bounds memory
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
    draws *= rows
    draws += np.arange(rows)[:, None]
    counts = np.bincount(draws.ravel(), minlength=rows * clusters)
    return counts.reshape(clusters, rows).astype(np.float64).T


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
