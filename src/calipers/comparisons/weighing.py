"""From tables of tasks to paired tasks."""

from __future__ import annotations

import polars as pl

from calipers.metrics.declare.declaration import RUNS, TASK
from calipers.scores.tasks import SQUARES, VALUE
from calipers.statistics.paired_tasks import PairedTasks


def pair_tasks(values: pl.DataFrame, others: pl.DataFrame) -> tuple[pl.DataFrame, PairedTasks]:
    """Return the tasks that both sides have a value of, in order, as a table and as numbers."""
    both = values.join(others, on=TASK, suffix="_candidate").sort(TASK)
    squares = None
    if SQUARES in values.columns and SQUARES in others.columns:
        squares = (both[SQUARES] + both[f"{SQUARES}_candidate"]).to_numpy()
    return both, PairedTasks(
        base=both[VALUE].to_numpy(),
        candidate=both[f"{VALUE}_candidate"].to_numpy(),
        base_runs=both[RUNS].cast(pl.Float64).to_numpy(),
        candidate_runs=both[f"{RUNS}_candidate"].cast(pl.Float64).to_numpy(),
        squares=squares,
    )
