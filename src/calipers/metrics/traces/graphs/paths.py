"""The tool graph: a node per tool, an edge per pair of consecutive calls; its path lengths."""

from __future__ import annotations

import polars as pl

from calipers.metrics.traces.graphs.graphs import Graphs, Ints, explode_lists, number_nodes
from calipers.support.late import np


def measure_convergence(calls: pl.Series, start: str | None, goal: str | None) -> pl.Series:
    """Return the shortest path from start to goal over the steps taken; 0 without path or steps.

    Start is the first call's tool unless named, goal the last call's. The steps taken are those
    from the first call of the start to the last call of the goal.

    >>> way = [{"tool_name": name, "context": None} for name in ("open", "read", "open", "save")]
    >>> measure_convergence(pl.Series([way]), None, None).item()  # open → save: 1 of 3 steps
    0.3333333333333333
    """
    rows, items = explode_lists(calls)
    found = np.zeros(len(calls))
    if len(rows):
        begin, end = _find_ends(rows, items["tool_name"], len(calls), start, goal)
        there = np.flatnonzero((begin >= 0) & (end > begin))
        node_of_call, row_of_node = number_nodes(rows, items["tool_name"])
        in_a_row = np.flatnonzero(rows[1:] == rows[:-1])
        graphs = Graphs.of(
            row_of_node, len(calls), node_of_call[in_a_row], node_of_call[in_a_row + 1]
        )
        lengths = graphs.measure_paths(node_of_call[begin[there]], node_of_call[end[there]])
        found[there] = np.maximum(lengths, 0) / (end - begin)[there]
    return pl.Series(calls.name, found).set(calls.is_null(), None)


def _find_ends(
    rows: Ints, tools: pl.Series, height: int, start: str | None, goal: str | None
) -> tuple[Ints, Ints]:
    """Return the first call of the start and the last call of the goal in each row; −1 for none."""
    begin, end = np.full((2, height), -1)
    starts = np.arange(len(rows)) if start is None else (tools == start).arg_true().to_numpy()
    goals = np.arange(len(rows)) if goal is None else (tools == goal).arg_true().to_numpy()
    begin[rows[starts[::-1]]] = starts[::-1]  # of several calls in a row the last written stays
    end[rows[goals]] = goals
    return begin, end
