"""The steps that an aggregate declares, run on tables in memory."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.metrics.declare.declaration import GROUP, TASK, Frame, Step


def apply_each(table: pl.DataFrame, steps: Sequence[Step]) -> list[pl.DataFrame]:
    """Return what each of the steps makes of the table."""
    return [apply_steps(table, step) for step in steps]


def apply_steps(table: pl.DataFrame, *steps: Step) -> pl.DataFrame:
    """Return what the steps, one after the other, make of the table."""
    for step in steps:
        table = collect_sorted(step(table.lazy()))
    return table


def collect_sorted(frame: Frame, *keys: str) -> pl.DataFrame:
    """Return the table in the order of its keys, so that sums over it are reproducible.

    It is sorted once it is there: before that, Polars would sum its groups in no order at all.
    """
    columns = frame.collect_schema()
    first = TASK if TASK in columns else GROUP  # a task is of one group
    order = [name for name in (first, *keys) if name in columns]
    return frame.collect(engine="in-memory").sort(order)
