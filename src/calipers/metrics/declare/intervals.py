"""Ways from a group's totals to the interval of a value; metrics name theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from calipers.metrics.declare.declaration import Rank, Totals
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import (
    ONE_ROW,
    TIGHT,
    Interval,
    bounded_interval,
    normal_quantile,
    positive_interval,
    unbounded_interval,
    wilson,
)

SIZES = (2, 3, 4)  # the powers of the clusters' sizes that are summed


@dataclass(frozen=True)
class Wilson:
    """For shares of rows or of tasks."""

    spread: str
    count: str
    name: str = "wilson"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Wilson's score interval."""
        n = int(totals[self.count])
        return wilson(value, n, *spread_of(self.spread, totals), confidence)


@dataclass(frozen=True)
class LogT:
    """For means of values that start at 0 and have no end."""

    spread: str
    unit: str = "row"
    name: str = "log t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """The value times or over e to so many standard errors."""
        spread, clusters = spread_of(self.spread, totals)
        around = positive_interval(value, spread, clusters, confidence)
        return _said(around, self.spread, totals, self.unit)


@dataclass(frozen=True)
class StudentT:
    """For means of values that may be negative and have no end."""

    spread: str
    unit: str = "row"
    name: str = "t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """The value ± t standard errors."""
        spread, clusters = spread_of(self.spread, totals)
        around = unbounded_interval(value, spread, clusters, confidence)
        return _said(around, self.spread, totals, self.unit)


@dataclass(frozen=True)
class Bounded:
    """For means of values between two ends: equal values do not make it sure."""

    spread: str
    ends: tuple[float, float] = (0.0, 1.0)
    unit: str = "row"
    tight: float = TIGHT
    name: str = "logit t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """The value ± t standard errors on the scale of the log odds, and what is unseen."""
        spread, clusters = spread_of(self.spread, totals)
        around = bounded_interval(
            value, spread, clusters, confidence, ends=self.ends, tight=self.tight
        )
        return _said(around, self.spread, totals, self.unit)


def of_mean(spread: str, ends: tuple[float, float], unit: str = "row") -> Bounded | LogT | StudentT:
    """The way for means of values that lie between these ends, of which some may be infinite."""
    if all(map(isfinite, ends)):
        return Bounded(spread, ends, unit)
    return LogT(spread, unit) if ends[0] == 0 else StudentT(spread, unit)


def _said(around: Interval, spread: str, totals: Totals, unit: str = "row") -> Interval:
    """The interval, or why one row, or one task, has none."""
    if not clusters_of(spread, totals).too_few or totals.get(f"{spread}__size", 1) > 1:
        return around
    return replace(around, reason=ONE_ROW.replace("row", unit))


@dataclass(frozen=True)
class OrderStatistics:
    """For quantiles: two of the values themselves."""

    rank: Rank
    name: str = "order statistics"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """The values at the ranks that the engine has looked up."""
        del value
        low, high = totals.get(self.rank.low_name), totals.get(self.rank.high_name)
        if low is None or high is None:
            n = int(totals[self.rank.count_name])
            reason = (
                f"{n:,} {'row is' if n == 1 else 'rows are'} too few for a bound within the data"
            )
            return Interval(low=low, high=high, stderr=None, reason=reason)
        reach = 2 * normal_quantile(confidence)
        return Interval(low=low, high=high, stderr=(high - low) / reach)


def spread_of(name: str, totals: Totals) -> tuple[float, Clusters]:
    """The spread and the clusters behind a value."""
    return totals.get(f"{name}__spread", 0.0), clusters_of(name, totals)


def clusters_of(name: str, totals: Totals) -> Clusters:
    """The clusters behind a value, with what their sizes leave of them."""
    count = int(totals.get(f"{name}__clusters", 0))
    total = totals.get(f"{name}__size", 0.0)
    if not total:
        return Clusters.of(count)
    second, third, fourth = (totals[size_total(name, power)] for power in SIZES)
    return Clusters.of_powers(count, total, (second, third, fourth))


def size_total(name: str, power: int) -> str:
    """The total that holds the sum of the clusters' sizes to that power."""
    return f"{name}__size_{power}"


def is_of_one_cluster(name: str, totals: Totals) -> bool:
    """Whether all rows are of one cluster, so that they are all there is to go by."""
    return bool(totals.get(one_cluster(name)))


def one_cluster(name: str) -> str:
    """The total that says so."""
    return f"{name}__one_cluster"
