"""The graph of messages: a node per agent named in one, an edge from a sender to a receiver."""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.traces.graphs import Graphs
from calipers.traces.nodes import numbered, spread_out


def highest_centrality(messages: pl.Series) -> pl.Series:
    """The mean of betweenness, closeness and degree of the agent with the highest; null for none.

    >>> talk = [{"from": "lead", "to": who, "type": "handoff"} for who in ("coder", "tester")]
    >>> highest_centrality(pl.Series([talk])).item()  # degree 1, nothing leads to or through it
    0.3333333333333333
    """
    rows, items = spread_out(messages)
    names = pl.concat([items["from"], items["to"]]) if len(rows) else pl.Series([], dtype=pl.String)
    named = names.is_not_null().to_numpy()
    found = np.full(len(messages), np.nan)
    if named.any():
        both_rows = np.concatenate([rows, rows])
        nodes = np.full(len(names), -1)
        nodes[named], row_of_node = numbered(both_rows[named], names.drop_nulls())
        heads, tails = np.split(nodes, 2)
        edges = np.flatnonzero((heads >= 0) & (tails >= 0))
        graphs = Graphs.of(row_of_node, len(messages), heads[edges], tails[edges])
        combined = (graphs.betweenness() + graphs.closeness() + graphs.degree()) / 3.0
        rows_with_nodes = np.flatnonzero(graphs.sizes)
        found[rows_with_nodes] = np.maximum.reduceat(combined, graphs.first[rows_with_nodes])
    return pl.Series(messages.name, found).fill_nan(None)
