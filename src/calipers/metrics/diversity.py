"""Diversity of answers over a data set in a single pass: Z's self-consistency entropy v0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from calipers.metrics.declaration import (
    GROUP,
    Aggregate,
    Frame,
    Influence,
    Metric,
    Totals,
    centre,
    spread_of,
    total,
)
from calipers.metrics.normalize import answer_key
from calipers.stats.intervals import Interval, t_interval


def _entropy_totals(answers: Frame) -> Frame:
    count = nw.col("answer_n")
    log_n = count.cast(nw.Float64).log()
    return (
        answers.with_columns(n_log_n=count * log_n, n_log_n_log_n=count * log_n * log_n)
        .group_by(GROUP)
        .agg(
            count.sum().alias("answers__n"),
            nw.len().cast(nw.Int64).alias("answers__distinct"),
            nw.col("n_log_n").sum().alias("answers__n_log_n"),
            nw.col("n_log_n_log_n").sum().alias("answers__n_log_n_log_n"),
        )
    )


_answers = Aggregate(
    features=(answer_key,),
    keys=("answer_key",),
    where=lambda: ~nw.col("answer_key").is_null(),
    totals={"answer_n": nw.len().cast(nw.Int64)},
    finish=(_entropy_totals,),
)


def _sce(totals: Totals) -> Any:
    """−Σ p ln p from the counts' totals; exactly 0 where there is one answer."""
    count = totals["answers__n"]
    found = np.maximum(0.0, np.log(count) - totals["answers__n_log_n"] / count)
    return np.where(np.equal(totals["answers__distinct"], 1), 0.0, found)


def _sce_normalized(totals: Totals) -> Any:
    most = np.log(np.maximum(2.0, totals["answers__distinct"]))
    return np.minimum(1.0, _sce(totals) / most)


_EMPTY = "no record has an answer"
_NULLS = "a row without an answer is left out"


def _mean_log_count(totals: Totals) -> float:
    return totals["answers__n_log_n"] / totals["answers__n"]


def _squares(totals: Totals) -> float:
    """Σ over rows of (mean of ln count − ln count of the row's answer)²."""
    mean = _mean_log_count(totals)
    return max(0.0, totals["answers__n_log_n_log_n"] - totals["answers__n"] * mean**2)


_information = Influence(
    name="answers",
    rows="answers__n",
    centre=_mean_log_count,
    effect=centre("answers") - total("answer_n").cast(nw.Float64).log(),
    squares=_squares,
    keyed=_answers,
    keyed_reads=("answer_n",),
)


@dataclass(frozen=True)
class _EntropyDelta:
    """The delta method, moved by what a sample's entropy lacks on average.

    (distinct − 1) / 2n, by Miller (1955); for rows in clusters n is the number of rows that would
    say as much if they were independent.
    """

    normalized: bool = False
    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n, distinct = totals["answers__n"], totals["answers__distinct"]
        scale = log(distinct) if self.normalized and distinct > 1 else 1.0
        spread, clusters = spread_of("answers", totals)
        around = t_interval(value, spread / scale**2, clusters, confidence)
        if around.low is None or around.high is None:
            return around
        of_rows = _squares(totals) / n**2
        repeats = max(1.0, spread / of_rows) if of_rows > 0 else n / clusters
        lack = (distinct - 1) / (2 * n) * repeats / scale
        return replace(
            around, low=min(value, around.low + lack), high=max(value, around.high + lack)
        )


def _rarity(_: Totals) -> pl.Expr:
    return 1 / pl.col("answer_n")


sce = Metric(
    name="sce",
    says="Entropy of the answers over the data set: how varied they are, in nats.",
    formula="−Σ p ln p over the distinct normalised answers",
    spec="Z 4.1",
    profiles=("reasoning",),
    needs=("answer",),
    nulls=_NULLS,
    unit="nats",
    range=(0, float("inf")),
    better=None,
    aggregate=_answers,
    rows="answers__n",
    value=_sce,
    empty=_EMPTY,
    work="ln {answers__n} − {answers__n_log_n} / {answers__n}, "
    "{answers__n_log_n} being Σ n ln n over {answers__distinct} distinct answers",
    interval=_EntropyDelta(),
    influence=_information,
    weight=_rarity,
)

sce_normalized = Metric(
    name="sce_normalized",
    says="Entropy of the answers as a share of the most it could be with as many distinct ones.",
    formula="sce / ln(distinct answers); 0 when there is one",
    spec="Z 4.1",
    profiles=("reasoning",),
    needs=("answer",),
    nulls=_NULLS,
    unit=None,
    range=(0, 1),
    better=None,
    aggregate=_answers,
    rows="answers__n",
    value=_sce_normalized,
    empty=_EMPTY,
    work="(ln {answers__n} − {answers__n_log_n} / {answers__n}) / ln {answers__distinct}, "
    "0 where all answers are one",
    interval=_EntropyDelta(normalized=True),
    influence=_information,
    weight=_rarity,
)
