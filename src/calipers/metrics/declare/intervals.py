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
        """Return Wilson's score interval."""
        n = int(totals[self.count])
        return wilson(value, n, *read_spread(self.spread, totals), confidence)


@dataclass(frozen=True)
class LogT:
    """For means of values that start at 0 and have no end."""

    spread: str
    unit: str = "row"
    name: str = "log t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the value times and over e to the power of t standard errors."""
        spread, clusters = read_spread(self.spread, totals)
        around = positive_interval(value, spread, clusters, confidence)
        return _explain_single(around, self.spread, totals, self.unit)


@dataclass(frozen=True)
class StudentT:
    """For means of values that may be negative and have no end."""

    spread: str
    unit: str = "row"
    name: str = "t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the value ± t standard errors."""
        spread, clusters = read_spread(self.spread, totals)
        around = unbounded_interval(value, spread, clusters, confidence)
        return _explain_single(around, self.spread, totals, self.unit)


@dataclass(frozen=True)
class Bounded:
    """For means of values between two ends: equal values do not make it sure."""

    spread: str
    ends: tuple[float, float] = (0.0, 1.0)
    unit: str = "row"
    tight: float = TIGHT
    name: str = "logit t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the value ± t standard errors on log odds, allowing for unseen values."""
        spread, clusters = read_spread(self.spread, totals)
        around = bounded_interval(
            value, spread, clusters, confidence, ends=self.ends, tight=self.tight
        )
        return _explain_single(around, self.spread, totals, self.unit)


def choose_for_mean(
    spread: str, ends: tuple[float, float], unit: str = "row"
) -> Bounded | LogT | StudentT:
    """Return the method for means of values between these ends, which may be infinite."""
    if all(map(isfinite, ends)):
        return Bounded(spread, ends, unit)
    return LogT(spread, unit) if ends[0] == 0 else StudentT(spread, unit)


def _explain_single(around: Interval, spread: str, totals: Totals, unit: str = "row") -> Interval:
    """Return the interval, or the reason why one row, or one task, has none."""
    if not read_clusters(spread, totals).too_few or totals.get(f"{spread}__size", 1) > 1:
        return around
    return replace(around, reason=ONE_ROW.replace("row", unit))


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
            reason = (
                f"{n:,} {'row is' if n == 1 else 'rows are'} too few for a bound within the data"
            )
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
