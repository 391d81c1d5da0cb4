"""Shares of a whole to which rows add in part, or with weights of their own."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Influence, Totals
from calipers.metrics.declare.intervals import read_clusters, read_spread
from calipers.statistics.intervals import Interval, partial_wilson
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True)
class PartialWilson:
    """Wilson's interval with the effective number of rows, as if each were right or wrong."""

    spread: str
    weights: str  # the influence of the weights: how unequally clusters weigh
    count: str
    name: str = "wilson"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return Wilson's score interval of that size."""
        spread, _ = read_spread(self.spread, totals)
        clusters = read_clusters(self.weights, totals)
        return partial_wilson(value, int(totals[self.count]), spread, clusters, confidence)


def declare_weights(
    name: str,
    weight: pl.Expr,
    *,
    rows: str,
    powers: tuple[str, str, str],
    per: str,
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
