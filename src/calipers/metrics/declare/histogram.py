"""Histograms of a feature from additive totals, without keeping the rows.

Values in [0, 1] have equal bins. Those from 0 on without an upper end have bins that widen, whose
edges are the preferred numbers of ISO 3, ten to a decade: bins of any two groups, parts of a table
or runs are then the same, whatever their values.
"""

from __future__ import annotations

import sys
from functools import cache

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Totals, name_kept_total
from calipers.metrics.declare.means import count_values

BINS = 20
EDGES = tuple(k / BINS for k in range(BINS + 1))

_PREFERRED = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
_DECADES = range(-1, 9)
_COUNT = "values"
WIDE_EDGES = (
    0.0,
    *(float(f"{number}e{decade}") for decade in _DECADES for number in _PREFERRED),
    1e9,
    sys.float_info.max,
)


@cache
def declare_histogram(feature: Feature) -> Aggregate:
    """Return the aggregate of counts per bin, closed on the left as grades are, the last on both.

    The totals are `{feature}__bin_0` and so on.
    """
    value = pl.col(feature.name)
    totals = {}
    for k in range(BINS):
        inside = value >= EDGES[k]
        if k < BINS - 1:
            inside = inside & (value < EDGES[k + 1])
        totals[_name_bin(feature.name, k)] = inside.cast(pl.Int64).sum()
    return Aggregate(features=(feature,), totals=totals)


def read_bins(name: str, totals: Totals) -> tuple[int, ...] | None:
    """Return the number of values in each bin; None without a value."""
    counts = tuple(int(totals.get(_name_bin(name, k), 0)) for k in range(BINS))
    return counts if any(counts) else None


def _name_bin(name: str, k: int) -> str:
    return f"{name}__bin_{k}"


@cache
def declare_wide_bin(feature: Feature) -> Feature:
    """Return the feature of the position of a value's bin, which is closed on the left."""
    name = feature.name
    inner = pl.Series(WIDE_EDGES[1:-1], dtype=pl.Float64)
    place = pl.lit(inner).search_sorted(pl.col(name).cast(pl.Float64), side="right")
    known = pl.when(pl.col(name).is_not_null()).then(place)
    dtype = pl.Int8()  # there are about a hundred bins
    return Feature(_name_wide_bin(name), (feature,), lambda _: known, dtype)


@cache
def declare_wide_histogram(feature: Feature) -> Aggregate:
    """Return the aggregate of counts per bin."""
    key = declare_wide_bin(feature)
    return count_values(key, _COUNT, kept_as=key.name)


def read_wide_bins(name: str, totals: Totals) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
    """Return edges and counts from the first bin with a value to the last; None without one."""
    prefix = _name_wide_bin(name)
    counts = [
        int(totals.get(name_kept_total(prefix, place, _COUNT), 0))
        for place in range(len(WIDE_EDGES) - 1)
    ]
    held = [place for place, count in enumerate(counts) if count]
    if not held:
        return None
    first, last = held[0], held[-1] + 1
    return WIDE_EDGES[first : last + 1], tuple(counts[first:last])


def _name_wide_bin(name: str) -> str:
    return f"_wide_bin_{name}"
