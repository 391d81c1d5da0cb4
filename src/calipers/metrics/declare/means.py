"""Metrics that are the mean of a feature, which most of them are."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    Aggregate,
    Feature,
    Influence,
    Metric,
    Need,
    Totals,
    centre,
)
from calipers.metrics.declare.intervals import OfMean, Wilson


def declare_sums(feature: Feature, *others: Feature, **totals: pl.Expr) -> Aggregate:
    """Return the aggregate a mean needs: the number of rows with the feature, and their sum.

    Further totals, of this or of other features, are counted beside them.
    """
    name = feature.name
    total = pl.col(name).sum() if feature.dtype.is_float() else sum_whole(feature)
    counted = {f"{name}__n": pl.col(name).count(), f"{name}__sum": total}
    return Aggregate(features=(feature, *others), totals={**counted, **totals})


def sum_whole(feature: Feature) -> pl.Expr:
    """Return the sum of whole numbers, in 64 bits: Polars would add up 32 bits in 32 bits."""
    return pl.col(feature.name).cast(pl.Int64).sum()


def count_true(feature: Feature) -> pl.Expr:
    """Return the number of rows for which a feature is true."""
    return sum_whole(feature)


@cache
def declare_influence(feature: Feature) -> Influence:
    """Return the influence of each row on the feature's mean."""
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"
    return Influence(
        name=feature.name,
        rows=count,
        centre=lambda totals: totals[summed] / totals[count],
        effect=pl.col(feature.name).cast(pl.Float64) - centre(feature.name),
        squares=lambda totals: totals[f"{feature.name}__squares"],
        feature=feature,
    )


def mean(
    feature: Feature,
    *,
    needs: tuple[Need, ...],
    profiles: tuple[str, ...] = ("reasoning",),
    nulls: str = "a row without the value is left out",
    range: tuple[float, float] = (0, inf),  # noqa: A002 (the word the catalogue shows)
    complement: bool = False,
    aggregate: Aggregate | None = None,
    empty: str | None = None,
    **facts: Any,
) -> Metric:
    """Return the metric that is the mean of a feature over rows that have it, or 1 minus it.

    `facts` are the other fields of `Metric`: its name, sentence, formula, and whatever it needs.
    """
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"

    def value(totals: Totals) -> float:
        share = totals[summed] / totals[count]
        return 1 - share if complement else share

    def weight(totals: Totals) -> pl.Expr:
        return (pl.col(feature.name).cast(pl.Float64) - totals[summed] / totals[count]).abs()

    is_share = feature.dtype == pl.Boolean
    return Metric(
        profiles=profiles,
        needs=needs,
        nulls=nulls,
        range=range,
        aggregate=aggregate or declare_sums(feature),
        rows=count,
        value=value,
        empty=empty or f"no record has {' and '.join(map(str, needs))}",
        work=f"{'1 − ' if complement else ''}{{{summed}}} / {{{count}}}",
        interval=Wilson(feature.name, count) if is_share else OfMean(feature.name, range),
        averaged=feature,
        complement=complement,
        influence=declare_influence(feature),
        weight=weight,
        **facts,
    )
