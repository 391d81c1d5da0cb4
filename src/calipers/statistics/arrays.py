"""Arrays of numbers and of labels, and sums over clusters of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[Any]


def sum_clusters(values: Floats, clusters: Labels | None) -> Floats:
    """Return the sum in each cluster; without clusters the values themselves."""
    if clusters is None:
        return values
    _, members = np.unique(clusters, return_inverse=True)
    return np.bincount(members, weights=values).astype(np.float64)
