"""Diversity of answers over a data set in a single pass: Z's self-consistency entropy v0."""

from __future__ import annotations

from dataclasses import replace
from math import hypot, inf
from typing import Any

import polars as pl

from calipers.metrics.answers.normalize import answer_key
from calipers.metrics.declare.declaration import GROUP, Frame, Metric, Totals
from calipers.metrics.declare.elementwise import at_least, at_most, log
from calipers.metrics.declare.influence import Influence, centre, total
from calipers.metrics.declare.intervals import read_spread
from calipers.metrics.declare.means import COUNT, count_values
from calipers.statistics.intervals import (
    ONE_ROW,
    UNKNOWN,
    Interval,
    design_effect,
    standard_error,
    t_quantile,
)
from calipers.support.quick_dataclasses import dataclass

_ROWS_PER_ANSWER = 5  # the fewest on average, as in the rule for chi-square tests
_FEW_ROWS = f"fewer than {_ROWS_PER_ANSWER} rows for each distinct answer: others may be unseen"
_ROUNDING = 1e-9


def _sum_entropy(answers: Frame) -> Frame:
    count = pl.col("answer_n")
    log_n = count.cast(pl.Float64).log()
    return (
        answers.with_columns(n_log_n=count * log_n, n_log_n_log_n=count * log_n * log_n)
        .group_by(GROUP)
        .agg(
            count.sum().alias("answers__n"),
            count.max().alias("answers__most"),
            COUNT.alias("answers__distinct"),
            pl.col("n_log_n").sum().alias("answers__n_log_n"),
            pl.col("n_log_n_log_n").sum().alias("answers__n_log_n_log_n"),
        )
    )


_answers = count_values(answer_key, "answer_n", finish=(_sum_entropy,))


def _compute_sce(totals: Totals) -> Any:
    """Return −Σ p ln p from the totals of the counts; exactly 0 with one distinct answer."""
    count = totals["answers__n"]
    found = at_least(0.0, log(count) - totals["answers__n_log_n"] / count)
    return found * (totals["answers__distinct"] != 1)


def _compute_normalized_sce(totals: Totals) -> Any:
    most = log(at_least(2.0, totals["answers__distinct"]))
    return at_most(1.0, _compute_sce(totals) / most)


def _average_log_counts(totals: Totals) -> float:
    return totals["answers__n_log_n"] / totals["answers__n"]


def _sum_squares(totals: Totals) -> float:
    """Return Σ over rows of (mean of ln count − ln count of the row's answer)²."""
    mean = _average_log_counts(totals)
    return max(0.0, totals["answers__n_log_n_log_n"] - totals["answers__n"] * mean**2)


_information = Influence(
    name="answers",
    rows="answers__n",
    centre=_average_log_counts,
    effect=centre("answers") - total("answer_n").cast(pl.Float64).log(),
    squares=_sum_squares,
    keyed=_answers,
    keyed_reads=("answer_n",),
)


@dataclass(frozen=True)
class _EntropyDelta:
    """The delta method to second order, for the effective number of independent rows.

    The entropy of a sample is too low by (distinct − 1) / 2n on average (Miller 1955). It is
    concave: t standard errors away it is t² / 2n lower than the slope says. The upper bound allows
    for an unseen answer, as if one more row had one. With few rows per distinct answer, any number
    may be unseen: then there is no upper bound.
    """

    normalized: bool = False
    name: str = "delta"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n, distinct = int(totals["answers__n"]), totals["answers__distinct"]
        spread, clusters = read_spread("answers", totals)
        stderr = standard_error(spread, clusters)
        if stderr is None:
            return replace(UNKNOWN, reason=ONE_ROW)
        scale = log(max(2, distinct)) if self.normalized else 1.0
        nats = value * scale
        unlike = n - totals["answers__most"]
        size = n / design_effect(spread, _sum_squares(totals), n, clusters, unlike)
        t = t_quantile(clusters, confidence)
        middle = nats + (distinct - 1) / (2 * size)
        low = middle - t * stderr - t * t / (2 * size)
        unseen = max(0.0, log(size + 1) - nats) / size
        high = middle + t * hypot(stderr, unseen)
        few = distinct * _ROWS_PER_ANSWER > size + _ROUNDING
        return Interval(
            low=min(nats, low) / scale,
            high=None if few else max(nats, high) / scale,
            stderr=stderr / scale,
            reason=_FEW_ROWS if few else None,
        )


sce = Metric(
    name="sce",
    says="Entropy of the answers over the data set: how varied they are, in nats.",
    formula="−Σ p ln p over the distinct normalised answers",
    spec="Z 4.1",
    needs=("answer",),
    nulls="a row without an answer is left out",
    unit="nats",
    range=(0, inf),
    aggregate=_answers,
    rows="answers__n",
    value=_compute_sce,
    empty="no record has an answer",
    work="ln {answers__n} − {answers__n_log_n} / {answers__n}, "
    "{answers__n_log_n} being Σ n ln n over {answers__distinct} distinct answers",
    interval=_EntropyDelta(),
    influence=_information,
    not_resampled="answers are missing from resamples, whose entropy falls short of the sample's",
    weight=lambda _: 1 / pl.col("answer_n"),
)

sce_normalized = replace(
    sce,
    name="sce_normalized",
    says="Entropy of the answers as a share of the most it could be with as many distinct ones.",
    formula="sce / ln(distinct answers); 0 when there is one",
    unit=None,
    range=(0, 1),
    value=_compute_normalized_sce,
    work="(ln {answers__n} − {answers__n_log_n} / {answers__n}) / ln {answers__distinct}, "
    "0 where all answers are one",
    interval=_EntropyDelta(normalized=True),
)
