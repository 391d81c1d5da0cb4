"""The trace of a run, decoded once for all metrics that read it."""

from __future__ import annotations

from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.traces.graphs import DECODED, decoded

PROFILES = ("agents",)

trace = Feature(
    name="_trace",
    reads=("trace",),
    dtype=DECODED,
    expression=lambda settings: pl.col("trace").map_batches(
        partial(decoded, contexts=settings.optimal_tools is not None), return_dtype=DECODED
    ),
    stored=False,
    listed=False,
)


def part(name: str) -> pl.Expr:
    """The column of one part of the traces: a list per row, null where the trace has none."""
    return pl.col(trace.name).struct.field(name)


def counted(name: str, expression: pl.Expr) -> Feature:
    """How many things there are in a row's trace, for totals only."""
    return Feature(
        name=name,
        reads=(trace,),
        dtype=pl.Int64(),
        expression=lambda _: expression,
        listed=False,
    )
