"""Arrays of numbers and of labels, and sums over clusters of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from calipers.support.late import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Whole: TypeAlias = "NDArray[np.int64]"
Labels: TypeAlias = "NDArray[Any]"


def sum_clusters(values: Floats, clusters: Labels | None) -> Floats:
    """Return the sum in each cluster; without clusters the values themselves."""
    if clusters is None:
        return values
    _, members = np.unique(clusters, return_inverse=True)
    return np.bincount(members, weights=values).astype(np.float64)


def as_finite(values: ArrayLike) -> Floats:
    """Return the values as an array of floats; raise ValueError if one is missing or infinite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("values must be finite numbers: leave missing ones out first")
    return array
