"""Discrimination: how well stated probabilities tell right answers from wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log, sqrt

import narwhals as nw
import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.calibration.confidence import UNUSED, confidence, confidence_bin
from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Frame,
    Influence,
    Metric,
    Totals,
    total,
)
from calipers.metrics.declare.intervals import read_spread
from calipers.statistics import special
from calipers.statistics.areas import FEW, area_interval
from calipers.statistics.clusters import Clusters
from calipers.statistics.intervals import UNKNOWN, Interval, standard_error, t_quantile, wilson

_KINDS = ("auroc__right", "auroc__wrong")


def _place_levels(levels: Frame) -> Frame:
    """Return each level of confidence with the shares of wrong rows below and right ones above.

    Rows at the same level count half, on either side.
    """
    right, wrong = nw.col("right"), nw.col("wrong")
    all_right, all_wrong = right.sum().over(GROUP), wrong.sum().over(GROUP)
    both = levels.with_columns(all_right=all_right, all_wrong=all_wrong).filter(
        (nw.col("all_right") > 0) & (nw.col("all_wrong") > 0)
    )
    below = wrong.cum_sum().over(GROUP, order_by="prob_correct") - wrong / 2
    above = nw.col("all_right") - right.cum_sum().over(GROUP, order_by="prob_correct") + right / 2
    return both.with_columns(
        wrong_below=below / nw.col("all_wrong"), right_above=above / nw.col("all_right")
    )


def _sum_pairs(levels: Frame) -> Frame:
    right, wrong = nw.col("right"), nw.col("wrong")
    below, above = nw.col("wrong_below"), nw.col("right_above")
    sums = {
        "auroc__n": right + wrong,
        "auroc__right": right,
        "auroc__wrong": wrong,
        "auroc__sum": right * below,
        "auroc__right_squares": right * below * below,
        "auroc__wrong_squares": wrong * above * above,
    }
    placed = _place_levels(levels).with_columns(**sums)
    return placed.group_by(GROUP).agg(*(nw.col(name).sum() for name in sums))


def _add_effects(levels: Frame) -> Frame:
    """Return the effect of a right and a wrong row at each level, times the number of rows."""
    right, wrong = nw.col("all_right"), nw.col("all_wrong")
    n = right + wrong
    area = (nw.col("right") * nw.col("wrong_below")).sum().over(GROUP) / right
    return _place_levels(levels).with_columns(
        right_effect=(nw.col("wrong_below") - area) * n / right,
        wrong_effect=(nw.col("right_above") - area) * n / wrong,
    )


_levels = Aggregate(
    features=(confidence_bin, confidence, correct),
    keys=("prob_correct",),
    where=lambda: ~nw.col("confidence_bin").is_null(),
    totals={
        "level_n": nw.len().cast(nw.Int64),
        "right": nw.col("correct").cast(nw.Int64).sum(),
        "wrong": (~nw.col("correct")).cast(nw.Int64).sum(),
    },
    finish=(_sum_pairs,),
)


def _area(totals: Totals) -> float:
    return totals["auroc__sum"] / totals["auroc__right"]


def _split_variance(totals: Totals) -> tuple[float, float]:
    """Return what right and wrong rows add to the variance of DeLong et al. (1988)."""
    right, wrong, area = totals["auroc__right"], totals["auroc__wrong"], _area(totals)
    of_right = (totals["auroc__right_squares"] - right * area**2) / right**2
    of_wrong = (totals["auroc__wrong_squares"] - wrong * area**2) / wrong**2
    return max(0.0, of_right), max(0.0, of_wrong)


def _squares(totals: Totals) -> float:
    return sum(_split_variance(totals)) * totals["auroc__n"] ** 2


def _effect() -> nw.Expr:
    """Return the effect of a row; null if the row is not used, although others of its level are."""
    right, wrong = total("right_effect"), total("wrong_effect")
    known = ~nw.col("confidence_bin").is_null()
    return nw.when(known).then(nw.when(nw.col("correct")).then(right).otherwise(wrong))


_influence = Influence(
    name="auroc",
    rows="auroc__n",
    centre=_area,
    effect=_effect(),
    squares=_squares,
    keyed=_levels,
    keyed_step=_add_effects,
    keyed_reads=("right_effect", "wrong_effect"),
)


def _estimate_small(totals: Totals, seen: float, clusters: Clusters) -> tuple[float, Clusters]:
    """Return the variance with each kind's rows on their own, and its degrees of freedom."""
    n, area = totals["auroc__n"], _area(totals)
    of_rows = _split_variance(totals)
    independent = sum(of_rows) * n / (n - 1)
    design = max(1.0, seen / independent) if independent else 1.0
    variance = degrees = 0.0
    for own, kind in zip(of_rows, _KINDS, strict=True):
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

    Few rows of a kind tell little of how they vary: they count with a variance of their own, as if
    half a row more lay anywhere, and with as many degrees of freedom as they have. Of fewer than
    six, or what clusters leave of them, it is the score interval of `areas`.
    Where every right row lies above every wrong one, or none does, nothing spreads: then Wilson's
    bound for as many rows as there are clusters of the rarer kind.
    """

    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread("auroc", totals)
        stderr = standard_error(spread, clusters)
        if stderr is None:
            return UNKNOWN
        n = totals["auroc__n"]
        if value in (0, 1):
            rarer = min(totals["auroc__right"], totals["auroc__wrong"])
            size = max(1, floor(rarer * clusters.count / n))
            return replace(wilson(value, size, 0.0, size, confidence), stderr=stderr)
        right, wrong = (totals[kind] * clusters.worth / n for kind in _KINDS)
        if min(right, wrong) < FEW:
            z = t_quantile(clusters, confidence)
            low, high = area_interval(value, right, wrong, z=z)
            return Interval(low=low, high=high, stderr=stderr)
        odds = log(value / (1 - value))
        variance, clusters = _estimate_small(totals, spread * clusters.inflation, clusters)
        reach = t_quantile(clusters, confidence) * sqrt(variance) / (value * (1 - value))
        return Interval(
            low=float(special.expit(odds - reach)),
            high=float(special.expit(odds + reach)),
            stderr=stderr,
        )


auroc = Metric(
    name="auroc",
    says="How often a right answer is stated with more confidence than a wrong one.",
    formula="P(prob_correct of a right row > of a wrong row) + ½ P(equal)",
    spec="Z 3.2, beyond it",
    profiles=("reasoning",),
    needs=("prob_correct", DECIDABLE),
    nulls=UNUSED,
    unit=None,
    range=(0, 1),
    better="higher",
    aggregate=_levels,
    rows="auroc__n",
    value=_area,
    empty="no right and wrong record with prob_correct to tell apart",
    work="{auroc__sum} / {auroc__right}, the shares of the {auroc__wrong} wrong rows below each "
    "right one, summed over the right ones",
    interval=_LogitDelta(),
    influence=_influence,
    weight=lambda _: (pl.col("prob_correct") - pl.col("correct").cast(pl.Float64)).abs(),
)
