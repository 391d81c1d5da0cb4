"""From lists in a column to the nodes of one graph per row."""

from __future__ import annotations

import numpy as np
import polars as pl

from calipers.metrics.traces.graphs.graphs import Ints


def explode_lists(lists: pl.Series) -> tuple[Ints, pl.DataFrame]:
    """Return the items of all lists, a row each, and the row that each was listed in."""
    lengths = lists.list.len().fill_null(0)
    rows = np.repeat(np.arange(len(lists)), lengths.to_numpy())
    return rows, lists.filter(lengths > 0).explode().struct.unnest()


def number_nodes(rows: Ints, names: pl.Series) -> tuple[Ints, Ints]:
    """Return the node of each name, numbered across rows, and the row of each node."""
    own = pl.Categorical(pl.Categories.random())  # that go with the batch
    codes = names.cast(own).to_physical().to_numpy().astype(np.int64)
    kinds = int(codes.max(initial=0)) + 1
    nodes, node_of_name = np.unique(rows * kinds + codes, return_inverse=True)
    return node_of_name, nodes // kinds
