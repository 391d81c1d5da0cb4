"""Interval methods: from a group's totals to the interval of a value; each metric names its own."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import polars as pl

from calipers.metrics.declare.declaration import Rank, Totals
from calipers.metrics.declare.influence import Influence
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import (
    ONE_ROW,
    TIGHT,
    Interval,
    interval_of_mean,
    normal_quantile,
    partial_wilson,
    wilson,
)
from calipers.support.quick_dataclasses import dataclass

SIZES = (2, 3, 4)  # the powers of the clusters' sizes that are summed


@dataclass(frozen=True)
class Wilson:
    """For shares of rows or of tasks."""

    spread: str
    count: str
    name: str = "wilson"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return Wilson's score interval."""
        n = int(totals[self.count])
        return wilson(value, n, *read_spread(self.spread, totals), confidence)


@dataclass(frozen=True)
class PartialWilson:
    """For shares to which rows add in part, or with weights: their effective number counts."""

    spread: str
    weights: str  # the influence of the weights: how unequally clusters weigh
    count: str
    name: str = "wilson"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return Wilson's score interval of that size, as if each row were right or wrong."""
        spread, _ = read_spread(self.spread, totals)
        clusters = read_clusters(self.weights, totals)
        return partial_wilson(value, int(totals[self.count]), spread, clusters, confidence)


def declare_weights(
    name: str, weight: pl.Expr, *, rows: str, powers: tuple[str, str, str], per: str
) -> Influence:
    """Return the influence of each row's weight, which gives clusters their effective number.

    `powers` are the totals that hold the sums of the weights' squares, cubes and fourth powers.
    """
    return Influence(
        name=name,
        rows=rows,
        centre=lambda _: 0.0,
        effect=weight,
        squares=lambda totals: totals[powers[0]],
        per=per,
        powers=powers,
    )


@dataclass(frozen=True)
class OfMean:
    """For means of values between two ends, either of which may be infinite."""

    spread: str
    ends: tuple[float, float] = (0.0, 1.0)
    unit: str = "row"
    tight: float = TIGHT

    @property
    def name(self) -> str:
        """How people call it, by the scale on which t standard errors are taken."""
        if all(map(isfinite, self.ends)):
            return "logit t"
        return "log t" if self.ends[0] == 0 else "t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the interval, or the reason why one row, or one task, has none."""
        spread, clusters = read_spread(self.spread, totals)
        around = interval_of_mean(
            value, spread, clusters, confidence, ends=self.ends, tight=self.tight
        )
        if not clusters.too_few or totals.get(f"{self.spread}__size", 1) > 1:
            return around
        return replace(around, reason=ONE_ROW.replace("row", self.unit))


@dataclass(frozen=True)
class OrderStatistics:
    """For quantiles: two of the values themselves."""

    rank: Rank
    name: str = "order statistics"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the values at the ranks that the engine has looked up."""
        del value
        low, high = totals.get(self.rank.low_name), totals.get(self.rank.high_name)
        if low is None or high is None:
            n = int(totals[self.rank.count_name])
            few = "row is" if n == 1 else "rows are"
            reason = f"{n:,} {few} too few for a bound within the data"
            return Interval(low=low, high=high, stderr=None, reason=reason)
        reach = 2 * normal_quantile(confidence)
        return Interval(low=low, high=high, stderr=(high - low) / reach)


def read_spread(name: str, totals: Totals) -> tuple[float, Clusters]:
    """Return the spread and the clusters behind a value."""
    return totals.get(f"{name}__spread", 0.0), read_clusters(name, totals)


def read_clusters(name: str, totals: Totals) -> Clusters:
    """Return the clusters behind a value, with their effective number by size."""
    count = int(totals.get(f"{name}__clusters", 0))
    total = totals.get(f"{name}__size", 0.0)
    if not total:
        return Clusters.of(count)
    second, third, fourth = (totals[name_size_total(name, power)] for power in SIZES)
    return Clusters.of_powers(count, total, (second, third, fourth))


def name_size_total(name: str, power: int) -> str:
    """Return the name of the total of the clusters' sizes to that power."""
    return f"{name}__size_{power}"


def is_of_one_cluster(name: str, totals: Totals) -> bool:
    """Say whether all rows are of one cluster, so that nothing else is known."""
    return bool(totals.get(name_one_cluster(name)))


def name_one_cluster(name: str) -> str:
    """Return the name of the total that says so."""
    return f"{name}__one_cluster"
