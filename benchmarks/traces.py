"""Graphs of traces: all of a batch at once, against networkx trace by trace."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contest import by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

METRICS = (
    "path_convergence",
    "communication_overhead",
    "coordination_centrality",
    "task_distribution_balance",
)
FASTER_THAN_NETWORKX = Bar(8, at_least=True)
SAME = Bar(1e-12)
_ROWS_SHARE = 50  # 20,000 traces where 1,000,000 rows are scored


def of_traces(setup: Setup) -> Iterator[Figure]:
    """Read the file, build both graphs of each trace, and measure them."""
    rows = setup.rows // _ROWS_SHARE
    path = setup.file("traces", ".jsonl", rows)
    runs = by_turns(
        setup.rounds,
        networkx=contestant("networkx_traces", path),
        calipers=contestant("calipers", path, *METRICS),
    )
    ours, theirs = runs["calipers"], runs["networkx"]
    yield Figure(
        name="traces: networkx / calipers",
        value=theirs.seconds / ours.seconds,
        bar=FASTER_THAN_NETWORKX,
        binding=setup.is_full,
        detail=f"{versus(theirs, ours)}, {rows:,} traces",
    )
    yield Figure(
        name="numbers of traces: calipers - networkx",
        value=largest_difference(ours.values, theirs.values),
        unit="",
        bar=SAME,
    )
