"""The graph of messages: a node per agent named in one, an edge from a sender to a receiver."""

from __future__ import annotations

import polars as pl

from calipers.metrics.traces.graphs.graphs import Graphs, Ints, explode_lists, number_nodes
from calipers.support.late import np


def find_highest_centrality(messages: pl.Series) -> pl.Series:
    """Return the greatest mean of betweenness, closeness and degree of an agent; null for none.

    >>> talk = [{"from": "lead", "to": who, "type": "handoff"} for who in ("coder", "tester")]
    >>> find_highest_centrality(pl.Series([talk])).item()  # degree 1, no path to it
    0.3333333333333333
    """
    rows, items = explode_lists(messages)
    found = np.full(len(messages), np.nan)
    if len(rows):
        heads, tails, row_of_node = _number_agents(rows, items["from"], items["to"])
        named = (heads >= 0) & (tails >= 0)
        graphs = Graphs.of(row_of_node, len(messages), heads[named], tails[named])
        combined = (graphs.betweenness() + graphs.closeness() + graphs.degree()) / 3.0
        talking = np.flatnonzero(graphs.sizes)
        if len(talking):
            found[talking] = np.maximum.reduceat(combined, graphs.first[talking])
    return pl.Series(messages.name, found).fill_nan(None)


def _number_agents(rows: Ints, senders: pl.Series, receivers: pl.Series) -> tuple[Ints, Ints, Ints]:
    """Return sender and receiver nodes, −1 for an agent not named, and each node's row."""
    names, rows = pl.concat([senders, receivers]), np.concatenate([rows, rows])
    if not names.null_count():
        nodes, row_of_node = number_nodes(rows, names)
    else:
        named = names.is_not_null().to_numpy()
        nodes = np.full(len(names), -1)
        nodes[named], row_of_node = number_nodes(rows[named], names.drop_nulls())
    heads, tails = np.split(nodes, 2)
    return heads, tails, row_of_node
