"""Calibration: how far stated probabilities of being right lie from what happened."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import hypot, pi, sqrt

import polars as pl

from calipers.metrics.answers.accuracy import DECIDABLE, correct
from calipers.metrics.calibration.stated import (
    Stated,
    declare_bin,
    declare_confidence,
    declare_squared_error,
)
from calipers.metrics.declare.columns import sum_by_group
from calipers.metrics.declare.declaration import Aggregate, Frame, Metric, Totals, name_kept_total
from calipers.metrics.declare.influence import Influence, centre, total
from calipers.metrics.declare.intervals import read_spread
from calipers.metrics.declare.means import mean
from calipers.statistics.intervals import (
    ONE_ROW,
    UNKNOWN,
    Interval,
    design_effect,
    standard_error,
    t_quantile,
)
from calipers.support.quick_dataclasses import dataclass

_SURE = 1.96  # standard errors from 0: a bin's gap is significant, and its sign known
_DESIGNS = (1, 2, 4, 8, 16, 32, 64)  # factors by which clusters may increase the variance
_ROUNDING = 1e-9
_MEAN_OF_FOLDED = sqrt(2 / pi)  # the mean distance from 0 of a standard normal

_RELIABILITY = "reliability"


@cache
def declare_brier(stated: Stated) -> Metric:
    """Return the Brier score of a stated probability."""
    return mean(
        declare_squared_error(stated),
        name=stated.label("brier"),
        says="The mean squared distance between stated confidence and being right.",
        formula=f"mean(({stated.field} − correct)²)",
        spec="Z 3.1",
        needs=(stated.field, DECIDABLE),
        nulls=stated.unused,
        range=(0, 1),
        better="lower",
    )


class _Binned:
    """The gaps between confidence and accuracy, bin by bin, and their sums."""

    def __init__(self, stated: Stated) -> None:
        self.stated = stated
        self.prefix = stated.column("ece")
        self.n, self.gap, self.squares = (f"{self.prefix}__{e}" for e in ("n", "gap", "squares"))

    def of_bin(self, total_name: str) -> str:
        return self.stated.column(f"bin_{total_name}")

    def noise(self, design: int) -> str:
        return f"{self.prefix}__noise_{design}"

    def unseen(self, design: int) -> str:
        return f"{self.prefix}__unseen_{design}"

    def value(self, totals: Totals) -> float:
        return totals[self.gap] / totals[self.n]

    def sum_gaps(self, bins: Frame) -> Frame:
        return sum_by_group(bins, self.express_gaps())

    def express_gaps(self) -> dict[str, pl.Expr]:
        """Return the gaps, and the noise of bins that may have none, for several design effects.

        Noise is the standard deviation of a bin's sum of errors if its true gap is 0. The allowance
        for unseen errors shrinks with the number of rows that differ from the rest of their bin.
        """
        rows, right, confidence, squares = (
            pl.col(self.of_bin(name)) for name in ("n", "right", "confidence", "squares")
        )
        gap, noise = (confidence - right).abs(), squares.sqrt()
        unlike = pl.when(2 * right < rows).then(right).otherwise(rows - right)
        gaps = {self.n: rows, self.gap: gap, self.squares: squares}
        for design in _DESIGNS:
            may_be_none = gap < _SURE * sqrt(design) * noise
            gaps[self.noise(design)] = pl.when(may_be_none).then(noise).otherwise(0.0)
            gaps[self.unseen(design)] = rows / (rows + 1) / (1 + unlike / design)
        return gaps

    def declare_totals(self) -> Aggregate:
        place, probability = declare_bin(self.stated), declare_confidence(self.stated)
        error = declare_squared_error(self.stated)
        return Aggregate(
            features=(place, probability, correct, error),
            keys=(place.name,),
            where=lambda: ~pl.col(place.name).is_null(),
            totals={
                self.of_bin("n"): pl.len().cast(pl.Int64),
                self.of_bin("confidence"): pl.col(probability.name).sum(),
                self.of_bin("right"): pl.col("correct").cast(pl.Int64).sum(),
                self.of_bin("squares"): pl.col(error.name).sum(),
            },
            finish=(self.sum_gaps,),
            kept_as=self.stated.column(_RELIABILITY),
        )

    def effect(self) -> pl.Expr:
        """Return the effect of a row on its bin's gap, whose sign is the same for all its rows."""
        above, below = total(self.of_bin("confidence")), total(self.of_bin("right"))
        at_most = pl.when(above < below).then(-1.0).otherwise(0.0)
        sign = pl.when(above > below).then(1.0).otherwise(at_most)
        probability = pl.col(declare_confidence(self.stated).name)
        return sign * (probability - pl.col("correct").cast(pl.Float64)) - centre(self.prefix)

    def sum_squares(self, totals: Totals) -> float:
        return totals[self.squares] - totals[self.n] * self.value(totals) ** 2


@dataclass(frozen=True)
class _BinnedDelta:
    """The delta method on the gaps' signs; the lower bound allows for gaps that are only noise.

    A sum of absolute gaps is too large when the true gaps are small: a bin whose true gap is 0
    shows √(2/π) standard errors on average. Rows that are all right do not prove that none is
    wrong: a bin's variance counts one more cluster of rows, at a distance of 1, unlike the others.
    The more such clusters it really has, the less that counts.
    """

    of: _Binned
    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n = int(totals[self.of.n])
        spread, clusters = read_spread(self.of.prefix, totals)
        stderr = standard_error(spread, clusters)
        if stderr is None:
            return replace(UNKNOWN, reason=ONE_ROW)
        design = design_effect(spread, self.of.sum_squares(totals), n, clusters)
        known = next((each for each in _DESIGNS if design <= each + _ROUNDING), _DESIGNS[-1])
        unseen = sqrt(totals[self.of.unseen(known)]) / clusters.worth
        reach = t_quantile(clusters, confidence) * hypot(stderr, unseen)
        noise = totals[self.of.noise(known)] * sqrt(design) / n
        low = value - reach - _MEAN_OF_FOLDED * noise
        return Interval(low=low, high=value + reach, stderr=stderr)


@cache
def declare_ece(stated: Stated) -> Metric:
    """Return the expected calibration error of a stated probability."""
    binned = _Binned(stated)
    totals = binned.declare_totals()
    probability = declare_confidence(stated).name
    return Metric(
        name=stated.label("ece"),
        says="How far confidence and accuracy lie apart, over bins of equal width.",
        formula="Σ over bins (n_bin / n) · |accuracy_bin − mean confidence_bin|, "
        "K equal bins closed on the right (--bins, 10)",
        spec="Z 3.2",
        needs=(stated.field, DECIDABLE),
        nulls=stated.unused,
        range=(0, 1),
        better="lower",
        aggregate=totals,
        rows=binned.n,
        value=binned.value,
        work=f"{{{binned.gap}}} / {{{binned.n}}}, the sum over bins of "
        f"|Σ {stated.field} − Σ correct| over the rows",
        interval=_BinnedDelta(binned),
        influence=Influence(
            name=binned.prefix,
            rows=binned.n,
            centre=binned.value,
            effect=binned.effect(),
            squares=binned.sum_squares,
            keyed=totals,
            keyed_reads=(binned.of_bin("confidence"), binned.of_bin("right")),
        ),
        not_resampled="resampling adds noise to the gap of every bin, and the sum of these "
        "only grows",
        weight=lambda _: (pl.col(probability) - pl.col("correct").cast(pl.Float64)).abs(),
    )


def list_bins(bins: int, totals: Totals) -> list[tuple[float, float, int, float, int]]:
    """Return, for each bin of the ECE with rows: its edges, rows, mean confidence, right rows.

    These are the bins of a reliability diagram.
    """
    found = []
    for place in range(bins):
        n, confidence, right = (
            totals.get(name_kept_total(_RELIABILITY, place, name), 0)
            for name in ("bin_n", "bin_confidence", "bin_right")
        )
        if n:
            ends = place / bins, (place + 1) / bins
            found.append((*ends, int(n), float(confidence) / int(n), int(right)))
    return found


brier = declare_brier(Stated())
ece = declare_ece(Stated())
