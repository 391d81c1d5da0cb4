"""Seven statistics of a feature: median, mean, mode, minimum, maximum, deviation, count (T)."""

from __future__ import annotations

from functools import cache
from math import isfinite, sqrt

import polars as pl

from calipers.metrics.declare.declaration import GROUP, Aggregate, Feature, Frame, Totals
from calipers.metrics.declare.means import count_values


def list_positions(name: str, count: int) -> dict[str, int]:
    """Return the totals that are looked up among the sorted values, with their ranks from 1."""
    return {
        f"{name}__min": 1,
        f"{name}__middle": (count + 1) // 2,
        f"{name}__next": count // 2 + 1,
        f"{name}__max": count,
    }


def name_mode(feature: Feature) -> str:
    """Return the name of the total that holds the most frequent value."""
    return f"{feature.name}__mode"


@cache
def declare_mode(feature: Feature) -> Aggregate:
    """Return the aggregate `{feature}__mode`: the most frequent value, the smallest of equals."""
    name = feature.name

    def finish(values: Frame) -> Frame:
        count = pl.col("value_n")
        return (
            values.with_columns(most=count.max().over(GROUP))
            .filter(count == pl.col("most"))
            .group_by(GROUP)
            .agg(pl.col(name).min().alias(name_mode(feature)))
        )

    return count_values(feature, "value_n", finish=(finish,))


def describe(name: str, totals: Totals) -> dict[str, float | int | None] | None:
    """Return the seven statistics from a group's totals; None without a value.

    With an infinite value among them the deviation is null.
    """
    count = int(totals.get(f"{name}__n", 0))
    if not count:
        return None
    mean = totals[f"{name}__sum"] / count
    return {
        "median": (totals[f"{name}__middle"] + totals[f"{name}__next"]) / 2,
        "mean": mean,
        "mode": totals[f"{name}__mode"],
        "min": totals[f"{name}__min"],
        "max": totals[f"{name}__max"],
        "std_dev": sqrt(totals[f"{name}__squares"] / count) if isfinite(mean) else None,
        "count": count,
    }
