"""Efficiency: tokens used and time taken, as the API or the runner recorded them."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Feature, Metric, Rank, declare_recorded
from calipers.metrics.declare.intervals import OrderStatistics
from calipers.metrics.declare.means import mean

prompt_tokens = declare_recorded("prompt_tokens")
completion_tokens = declare_recorded("completion_tokens")
latency_ms = declare_recorded("latency_ms")

total_tokens = Feature(
    name="total_tokens",
    reads=("prompt_tokens", "completion_tokens"),
    dtype=pl.Float64(),
    expression=lambda _: pl.col("prompt_tokens") + pl.col("completion_tokens"),
)

prompt_tokens_mean = mean(
    prompt_tokens,
    name="prompt_tokens_mean",
    says="Tokens in the prompt, per call.",
    formula="mean(prompt_tokens)",
    spec="Z 6.1",
    needs=("prompt_tokens",),
    unit="tokens",
    better="lower",
)

completion_tokens_mean = mean(
    completion_tokens,
    name="completion_tokens_mean",
    says="Tokens in the completion, per call.",
    formula="mean(completion_tokens)",
    spec="Z 6.1",
    needs=("completion_tokens",),
    unit="tokens",
    better="lower",
)

total_tokens_mean = mean(
    total_tokens,
    name="total_tokens_mean",
    says="Tokens in prompt and completion together, per call.",
    formula="mean(prompt_tokens + completion_tokens)",
    spec="Z 6.1",
    needs=("prompt_tokens", "completion_tokens"),
    nulls="a row without both counts is left out",
    unit="tokens",
    better="lower",
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


def _declare_latency(percent: int, *, spec: str | None, profiles: tuple[str, ...]) -> Metric:
    rank = Rank(feature=latency_ms, percent=percent)
    share = f"{percent / 100:g}"
    return Metric(
        name=f"latency_p{percent}_ms",
        says=f"The time within which {percent} % of the calls are done.",
        formula=f"latency_ms at position ⌈{share} n⌉ of n sorted (nearest rank)",
        spec=spec,
        profiles=profiles,
        needs=("latency_ms",),
        nulls="a row without the value is left out",
        unit="ms",
        range=(0, float("inf")),
        better="lower",
        aggregate=rank,
        rows=rank.count_name,
        value=lambda totals: totals[rank.value_name],
        empty="no record has latency_ms",
        work=f"the value at position ⌈{share} · {{latency_ms__n}}⌉ of {{latency_ms__n}} "
        "in ascending order",
        interval=OrderStatistics(rank),
        influence=rank.influence,
        weight=lambda totals: -(pl.col("latency_ms") - totals[rank.value_name]).abs(),
    )


latency_p50_ms = _declare_latency(50, spec=None, profiles=("reasoning",))
latency_p95_ms = _declare_latency(95, spec="Z 6.2, S 1.7", profiles=("reasoning", "scenarios"))
latency_p99_ms = _declare_latency(99, spec=None, profiles=("reasoning",))
