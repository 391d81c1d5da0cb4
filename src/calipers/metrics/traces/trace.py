"""The trace of a run, decoded once for all metrics that read it."""

from __future__ import annotations

from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.traces.graphs import DECODED, decode_traces

PROFILES = ("agents",)

trace = Feature(
    name="_trace",
    reads=("trace",),
    dtype=DECODED,
    expression=lambda settings: pl.col("trace").map_batches(
        partial(decode_traces, contexts=settings.optimal_tools is not None), return_dtype=DECODED
    ),
    stored=False,
    listed=False,
)


def part(name: str) -> pl.Expr:
    """Return the column of one part of the traces: a list per row, null without it."""
    return pl.col(trace.name).struct.field(name)


def declare_count(name: str, expression: pl.Expr) -> Feature:
    """Return the feature of the number of things in a row's trace, for totals only."""
    return Feature(
        name=name,
        reads=(trace,),
        dtype=pl.Int64(),
        expression=lambda _: expression,
        listed=False,
    )
