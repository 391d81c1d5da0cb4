"""Calibration (Z 3): stated probabilities of being right against what happened.

The Brier score and the expected calibration error compare them; AUROC says how well they tell right
answers from wrong ones. `prob_correct` is a number, or an object of numbers such as
`{"p_true": 0.9, "mean": 0.7}`. Each name has metrics of its own, for example `brier(p_true)`, over
the field `prob_correct.p_true`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import nan, pi
from typing import Any
from zlib import crc32

import polars as pl

from calipers.metrics.declare.declaration import (
    GROUP,
    Aggregate,
    Feature,
    Frame,
    Influence,
    Metric,
    Totals,
    centre,
    name_kept_total,
    total,
)
from calipers.metrics.declare.interval_methods import read_spread
from calipers.metrics.declare.means import declare_mean, sum_by_group
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import DECIDABLE, correct
from calipers.records.fields import PROB_CORRECT
from calipers.statistics import special
from calipers.statistics.clusters import Clusters
from calipers.statistics.elementwise import (
    apply,
    as_whole,
    at_least,
    at_most,
    choose,
    divide,
    hypot,
    is_anywhere,
    is_one,
    log,
    power,
    sqrt,
)
from calipers.statistics.intervals import (
    ONE_CLUSTER,
    ONE_ROW,
    UNKNOWN,
    Interval,
    bound,
    compute_error,
    design_effect,
    t_quantile,
    wilson,
)
from calipers.statistics.paired_tests import FEW, area_interval

_LONGEST = 60  # characters of a column's name
_PLAIN = re.compile(r"(?:[A-Za-z0-9]+_)*[A-Za-z0-9]+")


@dataclass(frozen=True)
class StatedConfidence:
    """A stated probability: the record's only one, or that of a name."""

    name: str | None = None

    @property
    def field(self) -> str:
        """The record's field, a path where the probability has a name."""
        return PROB_CORRECT if self.name is None else f"{PROB_CORRECT}.{self.name}"

    @property
    def numbers(self) -> tuple[str, ...]:
        """The fields that must exist if asked for: those with a user's name."""
        return () if self.name is None else (self.field,)

    def label(self, metric: str) -> str:
        """Return what a metric of this probability is called."""
        return metric if self.name is None else f"{metric}({self.name})"

    def column(self, own: str) -> str:
        """Return the column for it; of a name, one that no other name has."""
        if self.name is None:
            return own
        if _PLAIN.fullmatch(self.name[: _LONGEST + 1]) and len(self.name) <= _LONGEST:
            return f"{own}_of_{self.name}"
        return f"{own}_of_{crc32(self.name.encode()):08x}_"

    @property
    def unused(self) -> str:
        """Which rows a metric leaves out."""
        return f"a row without {self.field}, or whose correctness cannot be decided, is left out"


@cache
def declare_confidence(stated: StatedConfidence) -> Feature:
    """Return the probability itself."""
    return Feature(
        stated.column(PROB_CORRECT),
        (stated.field,),
        lambda _: pl.col(stated.field),
        shown=stated.field,
        numbers=stated.numbers,
    )


@cache
def declare_squared_error(stated: StatedConfidence) -> Feature:
    """Return the squared distance between the probability and being right."""
    return Feature(
        stated.column("squared_error"),
        (stated.field, correct),
        lambda _: (pl.col(stated.field) - pl.col("correct").cast(pl.Float64)) ** 2,
        shown=stated.label("squared_error"),
        numbers=stated.numbers,
    )


@cache
def declare_bin(stated: StatedConfidence) -> Feature:
    """Return the bin, closed on the right, zero in the first; the edges are the doubles k/K."""

    def find_bin(settings: Settings) -> pl.Expr:
        edges = pl.Series([k / settings.bins for k in range(1, settings.bins)], dtype=pl.Float64)
        probability = pl.col(stated.field)
        known = probability.is_not_null() & pl.col("correct").is_not_null()
        return pl.when(known).then(pl.lit(edges).search_sorted(probability, side="left"))

    return Feature(
        stated.column("confidence_bin"),
        (stated.field, correct),
        find_bin,
        pl.Int32(),
        shown=stated.label("confidence_bin"),
        listed=False,
    )


_SURE = 1.96  # standard errors from 0: a bin's gap is significant, and its sign known
_DESIGNS = (1, 2, 4, 8, 16, 32, 64)  # factors by which clusters may increase the variance
_ROUNDING = 1e-9
_MEAN_OF_FOLDED = sqrt(2 / pi)  # the mean distance from 0 of a standard normal

_RELIABILITY = "reliability"


@cache
def declare_brier(stated: StatedConfidence) -> Metric:
    """Return the Brier score of a stated probability."""
    return declare_mean(
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

    def __init__(self, stated: StatedConfidence) -> None:
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

    def sum_squares(self, totals: Totals) -> Any:
        return totals[self.squares] - totals[self.n] * power(self.value(totals), 2)


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

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        n = as_whole(totals[self.of.n])
        spread, clusters = read_spread(self.of.prefix, totals)
        if is_one(n) and clusters.too_few:
            return replace(UNKNOWN, reason=ONE_ROW)
        stderr = compute_error(spread, clusters)
        design = design_effect(spread, self.of.sum_squares(totals), n, clusters)
        unseen, noise = (totals[of(_DESIGNS[-1])] for of in (self.of.unseen, self.of.noise))
        for known in reversed(_DESIGNS):
            is_enough = design <= known + _ROUNDING
            unseen = choose(is_enough, totals[self.of.unseen(known)], unseen)
            noise = choose(is_enough, totals[self.of.noise(known)], noise)
        reach = t_quantile(clusters, confidence) * hypot(stderr, sqrt(unseen) / clusters.worth)
        low = value - reach - _MEAN_OF_FOLDED * (noise * sqrt(design) / n)
        return bound(low, value + reach, stderr, choose(clusters.too_few, ONE_ROW, None))


@cache
def declare_ece(stated: StatedConfidence) -> Metric:
    """Return the expected calibration error of a stated probability."""
    binned = _Binned(stated)
    totals = binned.declare_totals()
    probability = declare_confidence(stated).name
    return Metric(
        name=stated.label("ece"),
        says="How far confidence and accuracy lie apart, over bins of equal width.",
        formula="Σ over bins (n_bin / n) · |accuracy_bin − mean confidence_bin|, "
        "K equal bins closed on the right (the setting `bins`, 10)",
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


brier = declare_brier(StatedConfidence())
ece = declare_ece(StatedConfidence())


class _Levels:
    """Right and wrong rows at each level of confidence, and their sums."""

    def __init__(self, stated: StatedConfidence) -> None:
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

    def split_variance(self, totals: Totals) -> tuple[Any, Any]:
        """Return what right and wrong rows add to the variance of DeLong et al. (1988)."""
        right, wrong = (totals[kind] for kind in self.kinds)
        square = power(self.area(totals), 2)
        of_right = totals[self.of_all("right_squares")] - right * square
        of_wrong = totals[self.of_all("wrong_squares")] - wrong * square
        return (
            at_least(0.0, divide(of_right, power(right, 2))),
            at_least(0.0, divide(of_wrong, power(wrong, 2))),
        )

    def sum_squares(self, totals: Totals) -> Any:
        return sum(self.split_variance(totals)) * power(totals[self.of_all("n")], 2)

    def effect(self) -> pl.Expr:
        """Return the effect of a row; null if it is not used, although others of its level are."""
        right, wrong = map(total, self.effects)
        known = ~pl.col(declare_bin(self.stated).name).is_null()
        return pl.when(known).then(pl.when(pl.col("correct")).then(right).otherwise(wrong))

    def estimate_small(self, totals: Totals, seen: Any, clusters: Clusters) -> tuple[Any, Clusters]:
        """Return the variance with each kind's rows on their own, and its degrees of freedom."""
        n, area = totals[self.of_all("n")], self.area(totals)
        of_rows = self.split_variance(totals)
        independent = divide(sum(of_rows) * n, n - 1)
        design = choose(independent == 0, 1.0, at_least(1.0, divide(seen, independent)))
        variance = degrees = 0.0
        for own, kind in zip(of_rows, self.kinds, strict=True):
            others = at_least(1.0, totals[kind] - 1)
            unseen = area * (1 - area) / 2 * power(n / clusters.worth / totals[kind], 2)
            of_kind = own * totals[kind] / others * design + unseen
            variance = variance + of_kind
            degrees = degrees + power(of_kind, 2) / others
        found = divide(power(variance, 2), degrees)
        degrees = choose(degrees == 0, clusters.degrees, found)
        return variance, replace(
            clusters, degrees=at_least(1.0, at_most(clusters.degrees, degrees))
        )


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

    def interval(self, value: Any, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread(self.of.prefix, totals)
        if is_one(value) and clusters.too_few:
            return UNKNOWN
        stderr = compute_error(spread, clusters)
        n, kinds = totals[self.of.of_all("n")], [totals[kind] for kind in self.of.kinds]
        right, wrong = (kind * clusters.worth / n for kind in kinds)
        is_at_end = (value == 0) | (value == 1)
        is_few = at_most(right, wrong) < FEW
        low = high = choose(is_few, nan, nan)
        if is_anywhere(is_at_end):
            size = at_least(1, as_whole(at_most(*kinds) * clusters.count / n))
            share = choose(is_at_end, value, 1.0)
            around = wilson(share, size, 0.0, size, confidence)
            low, high = around.low, around.high
        if is_anywhere(is_few & (is_at_end == 0)):
            z = t_quantile(clusters, confidence)
            below, above = area_interval(value, right, wrong, z=z)
            low, high = choose(is_at_end, low, below), choose(is_at_end, high, above)
        is_many = (is_few | is_at_end | clusters.too_few) == 0
        if is_anywhere(is_many):
            seen = spread * clusters.inflation
            variance, own = self.of.estimate_small(totals, seen, clusters)
            own = replace(own, degrees=choose(is_many, own.degrees, 1.0))
            odds = log(divide(value, 1 - value))
            reach = divide(t_quantile(own, confidence) * sqrt(variance), value * (1 - value))
            low = choose(is_many, apply(special.expit, odds - reach), low)
            high = choose(is_many, apply(special.expit, odds + reach), high)
        reason = choose(clusters.too_few, ONE_CLUSTER, None)
        if not is_one(value):
            low, high = (choose(clusters.too_few, nan, each) for each in (low, high))
        return bound(low, high, stderr, reason)


@cache
def declare_auroc(stated: StatedConfidence) -> Metric:
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


auroc = declare_auroc(StatedConfidence())
