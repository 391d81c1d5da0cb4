"""Metrics that are the mean of a feature, which most of them are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

import narwhals as nw
import polars as pl

from calipers.metrics.declare.declaration import (
    Aggregate,
    Extra,
    Feature,
    Influence,
    Metric,
    Need,
    Totals,
    centre,
)
from calipers.metrics.declare.intervals import Wilson, choose_for_mean


def declare_sums(feature: Feature) -> Aggregate:
    """Return the aggregate a mean needs: the number of rows with the feature, and their sum."""
    name = feature.name
    value = nw.col(name)
    if feature.dtype == pl.Boolean:
        value = value.cast(nw.Int64)
    return Aggregate(
        features=(feature,),
        totals={f"{name}__n": nw.col(name).count(), f"{name}__sum": value.sum()},
    )


@cache
def declare_influence(feature: Feature) -> Influence:
    """Return the influence of each row on the feature's mean."""
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"
    return Influence(
        name=feature.name,
        rows=count,
        centre=lambda totals: totals[summed] / totals[count],
        effect=nw.col(feature.name).cast(nw.Float64) - centre(feature.name),
        squares=lambda totals: totals[f"{feature.name}__squares"],
        feature=feature,
    )


def mean(
    feature: Feature,
    *,
    name: str,
    says: str,
    formula: str,
    spec: str | None = None,
    needs: tuple[Need, ...],
    profiles: tuple[str, ...] = ("reasoning",),
    nulls: str = "a row without the value is left out",
    unit: str | None = None,
    range: tuple[float, float] = (0, float("inf")),  # noqa: A002 (the word the catalogue shows)
    better: Literal["higher", "lower"] | None = None,
    complement: bool = False,
    aggregate: Aggregate | None = None,
    empty: str | None = None,
    extras: Mapping[str, Extra] | None = None,
    quotes: Feature | None = None,
    version: int = 1,
) -> Metric:
    """Return the metric that is the mean of a feature over rows that have it, or 1 minus it."""
    count, summed = f"{feature.name}__n", f"{feature.name}__sum"

    def value(totals: Totals) -> float:
        share = totals[summed] / totals[count]
        return 1 - share if complement else share

    def weight(totals: Totals) -> pl.Expr:
        return (pl.col(feature.name).cast(pl.Float64) - totals[summed] / totals[count]).abs()

    influence = declare_influence(feature)
    by_wilson = feature.dtype == pl.Boolean

    return Metric(
        name=name,
        says=says,
        formula=formula,
        spec=spec,
        profiles=profiles,
        needs=needs,
        nulls=nulls,
        unit=unit,
        range=range,
        better=better,
        aggregate=aggregate or declare_sums(feature),
        rows=count,
        value=value,
        empty=empty or f"no record has {' and '.join(map(str, needs))}",
        work=f"{'1 − ' if complement else ''}{{{summed}}} / {{{count}}}",
        interval=Wilson(influence.name, count)
        if by_wilson
        else choose_for_mean(influence.name, range),
        extras=extras or {},
        averaged=feature,
        complement=complement,
        influence=influence,
        weight=weight,
        quotes=quotes,
        version=version,
    )
