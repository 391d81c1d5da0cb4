"""The trace of a run, decoded once for all metrics that read it."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
from calipers.metrics.traces.graphs.decode import DECODED, decode_traces

PROFILES = ("agents",)

OPTIMAL_TOOLS = "optimal_tools"  # a record's own: it goes before the file of that name


def _decode(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        own = rows.struct.field(OPTIMAL_TOOLS)
        contexts = settings.optimal_tools is not None or own.null_count() < len(own)
        return decode_traces(rows.struct.field("trace"), contexts=contexts)

    return pl.struct("trace", OPTIMAL_TOOLS).map_batches(of_batch, return_dtype=DECODED)


trace = Feature(
    name="_trace",
    reads=("trace", OPTIMAL_TOOLS),
    dtype=DECODED,
    expression=_decode,
    stored=False,
)


def part(name: str) -> pl.Expr:
    """Return the column of one part of the traces: a list per row, null without it."""
    return pl.col(trace.name).struct.field(name)


def declare_count(name: str, expression: pl.Expr) -> Feature:
    """Return the feature of the number of things in a row's trace."""
    return Feature(name=name, reads=(trace,), dtype=pl.Int64(), expression=lambda _: expression)
