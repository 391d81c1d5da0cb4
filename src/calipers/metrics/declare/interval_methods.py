"""Interval methods: from a group's totals to the interval of a value; each metric names its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite, nan
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Influence, Rank, Totals
from calipers.statistics.clusters import SHARE_SUMS, Clusters
from calipers.statistics.elementwise import (
    apply,
    as_whole,
    at_least,
    choose,
    divide,
    is_anywhere,
    is_everywhere,
    is_one,
    power,
    sqrt,
)
from calipers.statistics.intervals import (
    ONE_ROW,
    TIGHT,
    Interval,
    bound,
    interval_of_mean,
    normal_quantile,
    partial_wilson,
    wilson,
)

SIZES = (2, 3, 4)  # the powers of the clusters' sizes that are summed


@dataclass(frozen=True)
class Wilson:
    """For shares of rows or of tasks."""

    spread: str
    count: str
    name: str = "wilson"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        """Return Wilson's score interval."""
        n = as_whole(totals[self.count])
        return wilson(value, n, *read_spread(self.spread, totals), confidence)


@dataclass(frozen=True)
class PartialWilson:
    """For shares to which rows add in part, or with weights: their effective number counts."""

    spread: str
    weights: str  # the influence of the weights: how unequally clusters weigh
    count: str
    name: str = "wilson"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        """Return Wilson's score interval of that size, as if each row were right or wrong."""
        spread, _ = read_spread(self.spread, totals)
        clusters = read_clusters(self.weights, totals)
        return partial_wilson(value, as_whole(totals[self.count]), spread, clusters, confidence)


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

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        """Return the interval, or the reason why one row, or one task, has none."""
        spread, clusters = read_spread(self.spread, totals)
        around = interval_of_mean(
            value,
            spread,
            clusters,
            confidence,
            ends=self.ends,
            tight=self.tight,
            skewness=read_skewness(self.spread, totals),
        )
        is_one_row = clusters.too_few & (totals.get(f"{self.spread}__size", 1) <= 1)
        if not is_anywhere(is_one_row):
            return around
        one = ONE_ROW.replace("row", self.unit)
        return replace(around, reason=choose(is_one_row, one, around.reason))


@dataclass(frozen=True)
class OrderStatistics:
    """For quantiles: two of the values themselves."""

    rank: Rank
    name: str = "order statistics"

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        """Return the values at the ranks that the engine has looked up."""
        del value
        low, high = (
            nan if (end := totals.get(name, nan)) is None else end
            for name in (self.rank.low_name, self.rank.high_name)
        )
        is_known = (low == low) & (high == high)  # noqa: PLR0124 (neither is NaN)
        reason = None
        if not is_everywhere(is_known):
            n = as_whole(totals[self.rank.count_name])
            reason = choose(is_known, None, apply(_explain_few, n, dtype=object))
        reach = 2 * normal_quantile(confidence)
        return bound(low, high, (high - low) / reach, reason)


@lru_cache(maxsize=1024)
def _explain_few(n: int) -> str:
    few = "row is" if n == 1 else "rows are"
    return f"{n:,} {few} too few for a bound within the data"


def read_spread(name: str, totals: Totals) -> tuple[Any, Clusters]:
    """Return the spread and the clusters behind a value, or behind those of columns."""
    return totals.get(f"{name}__spread", 0.0), read_clusters(name, totals)


def read_skewness(name: str, totals: Totals) -> Any:
    """Return the skewness of a value's error, Σ T³ / (Σ T²)^1.5 over its clusters' influences."""
    size = totals.get(f"{name}__size", 0.0)
    squares = totals.get(f"{name}__spread", 0.0) * size * size
    cubes = totals.get(name_cubes(name), 0.0)
    found = divide(divide(cubes, squares), sqrt(at_least(0.0, squares)))
    return choose((squares > 0) & (abs(found) < inf), found, 0.0)


def read_clusters(name: str, totals: Totals) -> Clusters:
    """Return the clusters behind a value, with their effective number by size."""
    count = as_whole(totals.get(f"{name}__clusters", 0))
    total = totals.get(f"{name}__size", 0.0)
    if not is_anywhere(total != 0):
        return Clusters.of(count)
    second, third, fourth = (totals[name_size_total(name, power)] for power in SIZES)
    if is_one(count):
        if name_all_squares(name) not in totals:
            return Clusters.of_powers(count, total, (second, third, fourth))
        return _read_unequal(name, totals, count, total, second)
    found = Clusters.of_power_columns(count, total, (second, third, fourth))
    if name_all_squares(name) not in totals:
        return found
    unequal = _read_unequal(name, totals, count, total, second)
    of_sums = totals.get(name_all_squares(name), nan)
    return Clusters.choose(of_sums == of_sums, unequal, found)  # noqa: PLR0124 (no NaN)


def _read_unequal(name: str, totals: Totals, count: Any, total: Any, second: Any) -> Clusters:
    return Clusters.of_sums(
        count,
        rows=total,
        second=divide(second, power(total, 2)),
        squares=totals[name_squares(name)],
        corrected=totals[name_corrected(name)],
        inside=totals.get(name_inside(name), 0.0),
        all_rows=totals[name_all_squares(name)],
        shares={(i, j): totals[name_share_total(name, i, j)] for i, j in SHARE_SUMS},
    )


def name_share_total(name: str, power: int, left: int) -> str:
    """Return the name of the total Σ share^power / (1 − share)^left of the clusters."""
    return f"{name}__share_{power}_{left}"


def name_squares(name: str) -> str:
    """Return the name of the total of the clusters' squared influences."""
    return f"{name}__cluster_squares"


def name_corrected(name: str) -> str:
    """Return the name of the total of the clusters' squared influences, each over 1 − share."""
    return f"{name}__corrected"


def name_cubes(name: str) -> str:
    """Return the name of the total of the clusters' influences to the third power."""
    return f"{name}__cubes"


def name_inside(name: str) -> str:
    """Return the name of the total of the rows' squares around the mean of their cluster."""
    return f"{name}__inside"


def name_all_squares(name: str) -> str:
    """Return the name of the total of the rows' squared influences."""
    return f"{name}__all_squares"


def name_size_total(name: str, power: int) -> str:
    """Return the name of the total of the clusters' sizes to that power."""
    return f"{name}__size_{power}"


def is_of_one_cluster(name: str, totals: Totals) -> bool:
    """Return True if all rows are of one cluster, so that nothing else is known."""
    return bool(totals.get(name_one_cluster(name)))


def name_one_cluster(name: str) -> str:
    """Return the name of the total that says so."""
    return f"{name}__one_cluster"
