"""The bootstrap over clusters: a resample is a weight per cluster, never a copy of rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calipers.stats.intervals import Interval

Floats = NDArray[np.float64]

_CELLS = 1 << 22  # weights at a time: bounds memory
_FEWEST = 2
_ONE_SIDED = 0.005


def weights(clusters: int, resamples: int, seed: Any) -> Iterator[Floats]:
    """Blocks of resamples: how often each cluster is drawn, a row per resample."""
    for number in range(blocks(clusters, resamples)):
        yield block(clusters, resamples, seed, number)


def blocks(clusters: int, resamples: int) -> int:
    """How many blocks that is: each holds as many resamples as fit into a few megabytes."""
    return -(-resamples // _at_once(clusters))


def block(clusters: int, resamples: int, seed: Any, number: int) -> Floats:
    """One block, from the seed and its number alone: blocks may be drawn in any order.

    In memory the resamples of a cluster stand side by side, as sums over clusters want them.
    """
    start = number * _at_once(clusters)
    rows = min(_at_once(clusters), resamples - start)
    draws = np.random.default_rng([seed, number]).integers(
        0, clusters, size=(rows, clusters), dtype=np.int64
    )
    draws *= rows
    draws += np.arange(rows)[:, None]
    counts = np.bincount(draws.ravel(), minlength=rows * clusters)
    return counts.reshape(clusters, rows).astype(np.float64).T


def _at_once(clusters: int) -> int:
    return max(1, _CELLS // clusters)


def bca(value: float, resampled: Floats, influences: Floats, confidence: float) -> Interval | None:
    """The bias-corrected and accelerated interval (Efron 1987, JASA 82, 171).

    `influences` are those of the clusters on the value; their skewness is the acceleration. Where
    nearly all resamples fall on one side of the value, as those of an entropy of many answers do,
    they show a bias that this cannot correct: the interval is then the basic one, reflected at the
    value. None where resampling says nothing: one cluster, or the same value every time.
    """
    found = np.sort(resampled[np.isfinite(resampled)])
    if found.size < _FEWEST or influences.size < _FEWEST or found[0] == found[-1]:
        return None
    below = (np.sum(found < value) + np.sum(found == value) / 2) / found.size
    stderr = float(found.std(ddof=1))
    if min(below, 1 - below) < _ONE_SIDED:
        high, low = 2 * value - np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(low=min(value, low), high=max(value, high), stderr=stderr)
    bias = special.ndtri(below)
    squares = float(np.sum(influences**2))
    skew = float(np.sum(influences**3)) / (6 * squares * sqrt(squares)) if squares else 0.0
    tails = special.ndtri([(1 - confidence) / 2, (1 + confidence) / 2]) + bias
    shares = special.ndtr(bias + tails / (1 - skew * tails))
    low, high = np.quantile(found, shares, method="inverted_cdf")
    return Interval(low=float(low), high=float(high), stderr=stderr)
