"""Small slices read together: values shrunken towards their mean, and bounds that hold at once.

Of ten categories with a dozen tasks each, the worst is mostly the one with the worst luck. Shrunken
towards the mean of all, by how much of their spread is luck, values are nearer the truth on average
(empirical Bayes: Efron & Morris 1975, J. Am. Stat. Assoc. 70, 311; Fay & Herriot 1979, 74, 269).

>>> found = shrink(np.array([0.4, 0.7, 0.75, 0.8]), np.array([10, 12, 11, 12]), np.full(4, 0.2))
>>> [round(float(each), 2) for each in found]
[0.56, 0.68, 0.7, 0.73]
"""

from __future__ import annotations

import numpy as np

from calipers.statistics.clusters import Floats

_STEPS = 60  # halvings to find the variance between slices
_NO_VARIANCE = 1e-24  # relative, squared: what rounding leaves
_FEWEST = 3  # slices that tell how far others lie apart


def shrink(values: Floats, sizes: Floats, variances: Floats) -> Floats:
    """Return each slice's value drawn towards the mean of all; as it is, of fewer than three.

    A slice's own variance tells little where it is small, so all slices' variances per unit are
    pooled. The variance between slices is that with which their squared distances from the mean
    are what they should be (Paule & Mandel 1982).

    Args:
        values: of the slices, along the last axis; several families may be stacked.
        sizes: how many tasks each has.
        variances: of a single task's value, as each slice shows it.
    """
    if values.shape[-1] < _FEWEST:
        return values.copy()
    scale = np.abs(values).max(-1, keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)  # so that no square overflows
    values, variances = values / scale, variances / scale / scale
    pooled = (sizes * variances).sum(-1, keepdims=True) / sizes.sum(-1, keepdims=True)
    own = np.maximum(pooled / sizes, _NO_VARIANCE)
    low, high = np.zeros_like(pooled), np.var(values, axis=-1, keepdims=True) * 4 + own.max()
    for _ in range(_STEPS):
        middle = (low + high) / 2
        weights = 1 / (own + middle)
        mean = (weights * values).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
        apart = (weights * (values - mean) ** 2).sum(-1, keepdims=True)
        is_more = apart > values.shape[-1] - 1
        low, high = np.where(is_more, middle, low), np.where(is_more, high, middle)
    weights = 1 / (own + low)
    mean = (weights * values).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
    kept = low / (low + own)
    shrunken: Floats = (mean + kept * (values - mean)) * scale
    return shrunken


def level_together(confidence: float, slices: int) -> float:
    """Return the level at which so many independent intervals hold all at once (Šidák 1967).

    >>> round(level_together(0.95, 10), 4)
    0.9949
    """
    return float(confidence ** (1 / max(1, slices)))
