"""Ways from a group's totals to the interval of a value; metrics name theirs."""

from __future__ import annotations

from dataclasses import dataclass

from calipers.metrics.declaration import Rank, Totals
from calipers.stats.intervals import Interval, normal_quantile, t_interval, wilson


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
class StudentT:
    """For means. Those of values in [0, 1] that are all 0, or all 1, vary as Wilson says."""

    spread: str
    of_shares: bool = False
    name: str = "t"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """The value ± t standard errors."""
        spread, clusters = spread_of(self.spread, totals)
        if self.of_shares and value in (0, 1) and clusters > 1:
            return wilson(value, clusters, spread, clusters, confidence)
        return t_interval(value, spread, clusters, confidence)


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
            return Interval(low=low, high=high, stderr=None)
        reach = 2 * normal_quantile(confidence)
        return Interval(low=low, high=high, stderr=(high - low) / reach)


def spread_of(name: str, totals: Totals) -> tuple[float, int]:
    """The spread and the number of clusters behind a value."""
    return totals.get(f"{name}__spread", 0.0), int(totals.get(f"{name}__clusters", 0))
