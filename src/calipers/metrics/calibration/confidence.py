"""Calibration: how far stated probabilities of being right lie from what happened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot, pi, sqrt

import narwhals as nw
import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Metric,
    Totals,
    centre,
    total,
)
from calipers.metrics.declare.intervals import read_spread
from calipers.metrics.declare.means import mean
from calipers.metrics.declare.settings import Settings
from calipers.statistics.intervals import (
    ONE_ROW,
    UNKNOWN,
    Interval,
    design_effect,
    standard_error,
    t_quantile,
)

_SURE = 1.96  # standard errors from 0: a bin's gap is there, and its sign known
_DESIGNS = (1, 2, 4, 8, 16, 32, 64)  # how many times larger clusters may make the variance
_ROUNDING = 1e-9
_MEAN_OF_FOLDED = sqrt(2 / pi)  # the mean distance from 0 of a standard normal

RELIABILITY = "reliability"
UNUSED = "a row without prob_correct, or whose correctness cannot be decided, is left out"

squared_error = Feature(
    name="squared_error",
    reads=("prob_correct", correct),
    dtype=pl.Float64(),
    expression=lambda _: (pl.col("prob_correct") - pl.col("correct").cast(pl.Float64)) ** 2,
)

brier = mean(
    squared_error,
    name="brier",
    says="The mean squared distance between stated confidence and being right.",
    formula="mean((prob_correct − correct)²)",
    spec="Z 3.1",
    needs=("prob_correct", DECIDABLE),
    nulls=UNUSED,
    range=(0, 1),
    better="lower",
)


def _bin(settings: Settings) -> pl.Expr:
    """Return the bin, closed on the right, zero in the first; the edges are the doubles k/K."""
    edges = pl.Series([k / settings.bins for k in range(1, settings.bins)], dtype=pl.Float64)
    known = pl.col("prob_correct").is_not_null() & pl.col("correct").is_not_null()
    return pl.when(known).then(pl.lit(edges).search_sorted(pl.col("prob_correct"), side="left"))


confidence_bin = Feature(
    name="confidence_bin",
    reads=("prob_correct", correct),
    dtype=pl.Int64(),
    expression=_bin,
    listed=False,
)

confidence = Feature(
    name="prob_correct",
    reads=("prob_correct",),
    dtype=pl.Float64(),
    expression=lambda _: pl.col("prob_correct"),
)


def _sum_gaps(bins: Frame) -> Frame:
    """Return the gaps, and the noise of bins that may have none, for several design effects.

    Noise is how far a bin's sum of errors strays where they are 0 on average. A bin hides the less
    the more of its rows are unlike the others, right where these are wrong.
    """
    gap = (nw.col("bin_confidence") - nw.col("bin_right")).abs()
    noise = nw.col("bin_squares").sqrt()
    rows, right = nw.col("bin_n"), nw.col("bin_right")
    unlike = nw.when(2 * right < rows).then(right).otherwise(rows - right)
    unsure = {
        _name_noise(design): nw.when(gap < _SURE * sqrt(design) * noise).then(noise).otherwise(0.0)
        for design in _DESIGNS
    }
    unsure |= {_unseen(design): rows / (rows + 1) / (1 + unlike / design) for design in _DESIGNS}
    return (
        bins.with_columns(gap=gap, **unsure)
        .group_by(GROUP)
        .agg(
            nw.col("bin_n").sum().alias("ece__n"),
            nw.col("gap").sum().alias("ece__gap"),
            nw.col("bin_squares").sum().alias("ece__squares"),
            *(nw.col(name).sum() for name in unsure),
        )
    )


def _name_noise(design: int) -> str:
    return f"ece__noise_{design}"


def _unseen(design: int) -> str:
    return f"ece__unseen_{design}"


BINNED = Aggregate(
    features=(confidence_bin, confidence, correct, squared_error),
    keys=("confidence_bin",),
    where=lambda: ~nw.col("confidence_bin").is_null(),
    totals={
        "bin_n": nw.len().cast(nw.Int64),
        "bin_confidence": nw.col("prob_correct").sum(),
        "bin_right": nw.col("correct").cast(nw.Int64).sum(),
        "bin_squares": nw.col("squared_error").sum(),
    },
    finish=(_sum_gaps,),
    kept_as=RELIABILITY,
)


def _ece(totals: Totals) -> float:
    return totals["ece__gap"] / totals["ece__n"]


def _bin_effect() -> nw.Expr:
    """Return the effect of a row on its bin's gap, whose sign is the same for all its rows."""
    above, below = total("bin_confidence"), total("bin_right")
    at_most = nw.when(above < below).then(-1.0).otherwise(0.0)
    sign = nw.when(above > below).then(1.0).otherwise(at_most)
    return sign * (nw.col("prob_correct") - nw.col("correct").cast(nw.Float64)) - centre("ece")


_gap_influence = Influence(
    name="ece",
    rows="ece__n",
    centre=_ece,
    effect=_bin_effect(),
    squares=lambda totals: totals["ece__squares"] - totals["ece__n"] * _ece(totals) ** 2,
    keyed=BINNED,
    keyed_reads=("bin_confidence", "bin_right"),
)


@dataclass(frozen=True)
class _BinnedDelta:
    """The delta method on the gaps' signs; the lower bound allows for gaps that are but noise.

    A sum of absolute gaps is too large when the true gaps are small: a bin whose gap is 0 shows,
    on average, √(2/π) standard errors. Rows that are all right do not show that none is wrong: a
    bin varies as if one more cluster of rows were unlike the others, which is a distance of 1. The
    more such clusters it has, the less that counts.
    """

    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n = int(totals["ece__n"])
        spread, clusters = read_spread("ece", totals)
        stderr = standard_error(spread, clusters)
        if stderr is None:
            return replace(UNKNOWN, reason=ONE_ROW)
        design = design_effect(spread, _gap_influence.squares(totals), n, clusters)
        known = next((each for each in _DESIGNS if design <= each + _ROUNDING), _DESIGNS[-1])
        unseen = sqrt(totals[_unseen(known)]) / clusters.worth
        reach = t_quantile(clusters, confidence) * hypot(stderr, unseen)
        noise = totals[_name_noise(known)] * sqrt(design) / n
        low = value - reach - _MEAN_OF_FOLDED * noise
        return Interval(low=low, high=value + reach, stderr=stderr)


ece = Metric(
    name="ece",
    says="How far confidence and accuracy lie apart, over bins of equal width.",
    formula="Σ over bins (n_bin / n) · |accuracy_bin − mean confidence_bin|, "
    "K equal bins closed on the right (--bins, 10)",
    spec="Z 3.2",
    profiles=("reasoning",),
    needs=("prob_correct", DECIDABLE),
    nulls=UNUSED,
    unit=None,
    range=(0, 1),
    better="lower",
    aggregate=BINNED,
    rows="ece__n",
    value=_ece,
    empty="no record has prob_correct and correct, or answer and target",
    work="{ece__gap} / {ece__n}, the sum over bins of |Σ prob_correct − Σ correct| over the rows",
    interval=_BinnedDelta(),
    influence=_gap_influence,
    not_resampled="resampling adds noise to the gap of every bin, and the sum of these only grows",
    weight=lambda _: (pl.col("prob_correct") - pl.col("correct").cast(pl.Float64)).abs(),
)
