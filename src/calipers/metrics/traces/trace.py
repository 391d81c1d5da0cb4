"""The trace of a run, decoded once for all metrics that read it."""

from __future__ import annotations

from functools import partial

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.means import mean
from calipers.metrics.declare.settings import Settings
from calipers.metrics.traces.graphs.decode import DECODED, decode_traces

mean_of_traces = partial(mean, profiles=("agents",), needs=("trace",), optional="unless asked for")

OPTIMAL_TOOLS = "optimal_tools"  # a record's own: it goes before the file of that name


def _decode(settings: Settings) -> pl.Expr:
    def of_batch(rows: pl.Series) -> pl.Series:
        own = rows.struct.field(OPTIMAL_TOOLS)
        contexts = settings.optimal_tools is not None or own.null_count() < len(own)
        return decode_traces(rows.struct.field("trace"), contexts=contexts)

    return pl.struct("trace", OPTIMAL_TOOLS).map_batches(of_batch, return_dtype=DECODED)


trace = Feature("_trace", ("trace", OPTIMAL_TOOLS), _decode, DECODED, stored=False)


def part(name: str) -> pl.Expr:
    """Return the column of one part of the traces: a list per row, null without it."""
    return pl.col(trace.name).struct.field(name)


def declare_count(name: str, expression: pl.Expr) -> Feature:
    """Return the feature of the number of things in a row's trace."""
    return Feature(name, (trace,), lambda _: expression, pl.Int64())
