"""How the values of a feature in [0, 1] spread over equal bins: additive totals, never the rows."""

from __future__ import annotations

from functools import cache

import narwhals as nw

from calipers.metrics.declare.declaration import Aggregate, Feature, Totals

BINS = 20
EDGES = tuple(k / BINS for k in range(BINS + 1))


@cache
def declare_histogram(feature: Feature) -> Aggregate:
    """Return the aggregate of counts per bin, closed on the left as grades are, the last on both.

    The totals are `{feature}__bin_0` and so on.
    """
    value = nw.col(feature.name)
    totals = {}
    for k in range(BINS):
        inside = value >= EDGES[k]
        if k < BINS - 1:
            inside = inside & (value < EDGES[k + 1])
        totals[_name_bin(feature.name, k)] = inside.cast(nw.Int64).sum()
    return Aggregate(features=(feature,), totals=totals)


def read_bins(name: str, totals: Totals) -> tuple[int, ...] | None:
    """Return the number of values in each bin; None without a value."""
    counts = tuple(int(totals.get(_name_bin(name, k), 0)) for k in range(BINS))
    return counts if any(counts) else None


def _name_bin(name: str, k: int) -> str:
    return f"{name}__bin_{k}"
