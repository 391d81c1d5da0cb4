"""Shares of a whole to which rows add in part, or with weights of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import narwhals as nw

from calipers.metrics.declaration import Influence, Totals
from calipers.metrics.intervals import spread_of
from calipers.stats.intervals import Interval, partial_wilson


@dataclass(frozen=True)
class PartialWilson:
    """Wilson's interval with as many rows as would vary as much if each were right or wrong."""

    spread: str
    weights: str  # the influence of the weights: how unequally clusters weigh
    count: str
    name: str = "wilson"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Wilson's score interval of that size."""
        spread, clusters = spread_of(self.spread, totals)
        worst, _ = spread_of(self.weights, totals)
        return partial_wilson(value, int(totals[self.count]), spread, clusters, worst, confidence)


def weight_influence(
    name: str,
    weight: nw.Expr,
    *,
    rows: str,
    squares: Callable[[Totals], float],
    per: str | None = None,
) -> Influence:
    """How much each row weighs; its spread is one over the size that unequal clusters are worth."""
    return Influence(
        name=name, rows=rows, centre=lambda _: 0.0, effect=weight, squares=squares, per=per
    )
