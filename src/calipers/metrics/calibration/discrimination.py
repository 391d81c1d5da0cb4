"""Discrimination: how well stated probabilities tell right answers from wrong ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import floor, log, sqrt

import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.calibration.stated import Stated, declare_bin, declare_confidence
from calipers.metrics.declare.columns import sum_by_group
from calipers.metrics.declare.declaration import GROUP, Aggregate, Frame, Metric, Totals
from calipers.metrics.declare.influence import Influence, total
from calipers.metrics.declare.intervals import read_spread
from calipers.statistics import special
from calipers.statistics.areas import FEW, area_interval
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import UNKNOWN, Interval, standard_error, t_quantile, wilson
from calipers.support.quick_dataclasses import dataclass


class _Levels:
    """Right and wrong rows at each level of confidence, and their sums."""

    def __init__(self, stated: Stated) -> None:
        self.stated = stated
        self.prefix = stated.column("auroc")
        # The totals that count right and wrong rows, and the effects of such rows at each level.
        self.kinds = self.of_all("right"), self.of_all("wrong")
        self.effects = stated.column("right_effect"), stated.column("wrong_effect")

    def of_all(self, total_name: str) -> str:
        return f"{self.prefix}__{total_name}"

    def place(self, levels: Frame) -> Frame:
        """Return each level of confidence with the shares of wrong rows below and right ones above.

        Rows at the same level count half, on either side.
        """
        level = declare_confidence(self.stated).name
        right, wrong = pl.col("right"), pl.col("wrong")
        all_right, all_wrong = right.sum().over(GROUP), wrong.sum().over(GROUP)
        both = levels.with_columns(all_right=all_right, all_wrong=all_wrong).filter(
            (pl.col("all_right") > 0) & (pl.col("all_wrong") > 0)
        )
        below = wrong.cum_sum().over(GROUP, order_by=level) - wrong / 2
        above = pl.col("all_right") - right.cum_sum().over(GROUP, order_by=level) + right / 2
        return both.with_columns(
            wrong_below=below / pl.col("all_wrong"), right_above=above / pl.col("all_right")
        )

    def sum_pairs(self, levels: Frame) -> Frame:
        right, wrong = pl.col("right"), pl.col("wrong")
        below, above = pl.col("wrong_below"), pl.col("right_above")
        sums = {
            self.of_all("n"): right + wrong,
            self.of_all("right"): right,
            self.of_all("wrong"): wrong,
            self.of_all("sum"): right * below,
            self.of_all("right_squares"): right * below * below,
            self.of_all("wrong_squares"): wrong * above * above,
        }
        return sum_by_group(self.place(levels), sums)

    def add_effects(self, levels: Frame) -> Frame:
        """Return the effect of a right and a wrong row at each level, times the number of rows."""
        right, wrong = pl.col("all_right"), pl.col("all_wrong")
        n = right + wrong
        area = (pl.col("right") * pl.col("wrong_below")).sum().over(GROUP) / right
        of_right, of_wrong = self.effects
        return self.place(levels).with_columns(
            ((pl.col("wrong_below") - area) * n / right).alias(of_right),
            ((pl.col("right_above") - area) * n / wrong).alias(of_wrong),
        )

    def declare_totals(self) -> Aggregate:
        place, level = declare_bin(self.stated), declare_confidence(self.stated)
        return Aggregate(
            features=(place, level, correct),
            keys=(level.name,),
            where=lambda: ~pl.col(place.name).is_null(),
            totals={
                "level_n": pl.len().cast(pl.Int64),
                "right": pl.col("correct").cast(pl.Int64).sum(),
                "wrong": (~pl.col("correct")).cast(pl.Int64).sum(),
            },
            finish=(self.sum_pairs,),
        )

    def area(self, totals: Totals) -> float:
        return totals[self.of_all("sum")] / totals[self.of_all("right")]

    def split_variance(self, totals: Totals) -> tuple[float, float]:
        """Return what right and wrong rows add to the variance of DeLong et al. (1988)."""
        right, wrong = (totals[kind] for kind in self.kinds)
        area = self.area(totals)
        of_right = (totals[self.of_all("right_squares")] - right * area**2) / right**2
        of_wrong = (totals[self.of_all("wrong_squares")] - wrong * area**2) / wrong**2
        return max(0.0, of_right), max(0.0, of_wrong)

    def sum_squares(self, totals: Totals) -> float:
        return sum(self.split_variance(totals)) * totals[self.of_all("n")] ** 2

    def effect(self) -> pl.Expr:
        """Return the effect of a row; null if it is not used, although others of its level are."""
        right, wrong = map(total, self.effects)
        known = ~pl.col(declare_bin(self.stated).name).is_null()
        return pl.when(known).then(pl.when(pl.col("correct")).then(right).otherwise(wrong))

    def estimate_small(
        self, totals: Totals, seen: float, clusters: Clusters
    ) -> tuple[float, Clusters]:
        """Return the variance with each kind's rows on their own, and its degrees of freedom."""
        n, area = totals[self.of_all("n")], self.area(totals)
        of_rows = self.split_variance(totals)
        independent = sum(of_rows) * n / (n - 1)
        design = max(1.0, seen / independent) if independent else 1.0
        variance = degrees = 0.0
        for own, kind in zip(of_rows, self.kinds, strict=True):
            others = max(1.0, totals[kind] - 1)
            unseen = area * (1 - area) / 2 * (n / clusters.worth / totals[kind]) ** 2
            of_kind = own * totals[kind] / others * design + unseen
            variance += of_kind
            degrees += of_kind**2 / others
        degrees = variance**2 / degrees if degrees else clusters.degrees
        return variance, replace(clusters, degrees=max(1.0, min(clusters.degrees, degrees)))


@dataclass(frozen=True)
class _LogitDelta:
    """The delta method on the log odds of the area: near 1 the area itself is too skewed.

    With few rows of a kind, its variance is estimated separately, as if half a row more lay
    anywhere, with its own degrees of freedom. With fewer than six (effective) rows, the score
    interval of `areas` is used. If every right row lies above every wrong one, or none does, the
    variance is 0: then Wilson's bound for as many rows as there are clusters of the rarer kind.
    """

    of: _Levels
    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread(self.of.prefix, totals)
        stderr = standard_error(spread, clusters)
        if stderr is None:
            return UNKNOWN
        n = totals[self.of.of_all("n")]
        if value in (0, 1):
            rarer = min(totals[kind] for kind in self.of.kinds)
            size = max(1, floor(rarer * clusters.count / n))
            return replace(wilson(value, size, 0.0, size, confidence), stderr=stderr)
        right, wrong = (totals[kind] * clusters.worth / n for kind in self.of.kinds)
        if min(right, wrong) < FEW:
            z = t_quantile(clusters, confidence)
            low, high = area_interval(value, right, wrong, z=z)
            return Interval(low=low, high=high, stderr=stderr)
        odds = log(value / (1 - value))
        seen = spread * clusters.inflation
        variance, clusters = self.of.estimate_small(totals, seen, clusters)
        reach = t_quantile(clusters, confidence) * sqrt(variance) / (value * (1 - value))
        low, high = special.expit(odds - reach), special.expit(odds + reach)
        return Interval(low=low, high=high, stderr=stderr)


@cache
def declare_auroc(stated: Stated) -> Metric:
    """Return how well a stated probability tells right rows from wrong ones."""
    levels = _Levels(stated)
    totals = levels.declare_totals()
    probability = declare_confidence(stated).name
    right, wrong = levels.kinds
    return Metric(
        name=stated.label("auroc"),
        says="How often a right answer is stated with more confidence than a wrong one.",
        formula=f"P({stated.field} of a right row > of a wrong row) + ½ P(equal)",
        spec="Z 3.2, beyond it",
        needs=(stated.field, DECIDABLE),
        nulls=stated.unused,
        range=(0, 1),
        better="higher",
        aggregate=totals,
        rows=levels.of_all("n"),
        value=levels.area,
        empty=f"no right and wrong record with {stated.field} to tell apart",
        work=f"{{{levels.of_all('sum')}}} / {{{right}}}, the shares of the {{{wrong}}} wrong rows "
        "below each right one, summed over the right ones",
        interval=_LogitDelta(levels),
        influence=Influence(
            name=levels.prefix,
            rows=levels.of_all("n"),
            centre=levels.area,
            effect=levels.effect(),
            squares=levels.sum_squares,
            keyed=totals,
            keyed_step=levels.add_effects,
            keyed_reads=levels.effects,
        ),
        weight=lambda _: (pl.col(probability) - pl.col("correct").cast(pl.Float64)).abs(),
    )


auroc = declare_auroc(Stated())
