"""Calibration: how far stated probabilities of being right lie from what happened."""

from __future__ import annotations

import narwhals as nw
import polars as pl

from calipers.metrics.accuracy import DECIDABLE, correct
from calipers.metrics.declaration import GROUP, Aggregate, Feature, Frame, Metric, Settings, mean

_UNUSED = "a row without prob_correct, or whose correctness cannot be decided, is left out"

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
    nulls=_UNUSED,
    range=(0, 1),
    better="lower",
)


def _bin(settings: Settings) -> pl.Expr:
    """Bins closed on the right, zero in the first; the edges are the doubles k/K."""
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


def _gaps(bins: Frame) -> Frame:
    gap = (nw.col("bin_confidence") - nw.col("bin_right")).abs()
    return (
        bins.with_columns(gap=gap)
        .group_by(GROUP)
        .agg(nw.col("bin_n").sum().alias("ece__n"), nw.col("gap").sum().alias("ece__gap"))
    )


ece = Metric(
    name="ece",
    says="How far confidence and accuracy lie apart, over bins of equal width.",
    formula="Σ over bins (n_bin / n) · |accuracy_bin − mean confidence_bin|, "
    "K equal bins closed on the right (--bins, 10)",
    spec="Z 3.2",
    profiles=("reasoning",),
    needs=("prob_correct", DECIDABLE),
    nulls=_UNUSED,
    unit=None,
    range=(0, 1),
    better="lower",
    aggregate=Aggregate(
        features=(confidence_bin, confidence, correct),
        keys=("confidence_bin",),
        where=lambda: ~nw.col("confidence_bin").is_null(),
        totals={
            "bin_n": nw.len().cast(nw.Int64),
            "bin_confidence": nw.col("prob_correct").sum(),
            "bin_right": nw.col("correct").cast(nw.Int64).sum(),
        },
        finish=((_gaps,),),
    ),
    rows="ece__n",
    value=lambda totals: totals["ece__gap"] / totals["ece__n"],
    empty="no record has prob_correct and correct, or answer and target",
    work="{ece__gap} / {ece__n}, the sum over bins of |Σ prob_correct − Σ correct| over the rows",
    influence=lambda _: (pl.col("prob_correct") - pl.col("correct").cast(pl.Float64)).abs(),
)
