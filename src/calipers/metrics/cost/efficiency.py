"""Efficiency: tokens used and time taken, as the API or the runner recorded them."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import polars as pl

from calipers.metrics.declare.columns import declare_recorded
from calipers.metrics.declare.declaration import Feature, Metric, OneOf
from calipers.metrics.declare.means import mean, quantile
from calipers.metrics.declare.settings import Settings

prompt_tokens = declare_recorded("prompt_tokens")
completion_tokens = declare_recorded("completion_tokens")
latency_ms = declare_recorded("latency_ms")

total_tokens = Feature(
    "total_tokens",
    ("prompt_tokens", "completion_tokens"),
    lambda _: pl.col("prompt_tokens") + pl.col("completion_tokens"),
)

_count_tokens = partial(mean, spec="Z 6.1", unit="tokens", better="lower")

prompt_tokens_mean = _count_tokens(
    prompt_tokens,
    name="prompt_tokens_mean",
    says="Tokens in the prompt, per call.",
    formula="mean(prompt_tokens)",
    needs=("prompt_tokens",),
)

completion_tokens_mean = _count_tokens(
    completion_tokens,
    name="completion_tokens_mean",
    says="Tokens in the completion, per call.",
    formula="mean(completion_tokens)",
    needs=("completion_tokens",),
)

total_tokens_mean = _count_tokens(
    total_tokens,
    name="total_tokens_mean",
    says="Tokens in prompt and completion together, per call.",
    formula="mean(prompt_tokens + completion_tokens)",
    needs=("prompt_tokens", "completion_tokens"),
    nulls="a row without both counts is left out",
)

latency_mean_ms = mean(
    latency_ms,
    name="latency_mean_ms",
    says="Time a call takes, on average.",
    formula="mean(latency_ms)",
    spec="Z 6.2",
    needs=("latency_ms",),
    unit="ms",
    better="lower",
)


def _declare_latency(percent: int, **facts: Any) -> Metric:
    return quantile(
        latency_ms,
        percent,
        "latency_ms",
        name=f"latency_p{percent}_ms",
        says=f"The time within which {percent} % of the calls are done.",
        needs=("latency_ms",),
        unit="ms",
        range=(0, inf),
        better="lower",
        **facts,
    )


latency_p50_ms = _declare_latency(50, profiles=("reasoning",))
latency_p95_ms = _declare_latency(95, spec="Z 6.2, S 1.7")
latency_p99_ms = _declare_latency(99, profiles=("reasoning",))


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
    needs=(OneOf((("duration_seconds",), ("latency_ms",))),),
    nulls="a row without a duration or a latency is left out",
    range=(0, 1),
    better="higher",
)
