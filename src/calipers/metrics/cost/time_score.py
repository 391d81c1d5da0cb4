"""Time score (P): how quick a run was, 1 up to a second, then falling with the logarithm."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Feature, OneOf
from calipers.metrics.declare.means import mean
from calipers.metrics.declare.settings import Settings


def _express_time_score(_: Settings) -> pl.Expr:
    """Return the score; at most 1, since P's formula has a pole at 1/e seconds."""
    seconds = pl.coalesce(pl.col("duration_seconds"), pl.col("latency_ms") / 1000)
    return pl.when(seconds < 1).then(1.0).otherwise(1 / (1 + seconds.log()))


time_score = Feature("time_score", ("duration_seconds", "latency_ms"), _express_time_score)

time_score_mean = mean(
    time_score,
    says="How quick runs are: 1 up to a second, 0.3 at ten, 0.18 at a hundred.",
    formula="mean(1 / (1 + ln t) for t ≥ 1, else 1), t = duration_seconds, else latency_ms / 1000",
    spec="P 1.4, time taken",
    profiles=("agents",),
    needs=(OneOf((("duration_seconds",), ("latency_ms",))),),
    nulls="a row without a duration or a latency is left out",
    range=(0, 1),
    better="higher",
    empty="no record has duration_seconds, or latency_ms",
)
