"""The sums and the steps that an aggregate declares, run on tables in memory."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from calipers.engines.totals import sum_keys
from calipers.metrics.declare.declaration import GROUP, TASK, Aggregate, Frame, Step

MANY = 100_000  # rows; with fewer, to set up a stream takes longer than it saves


def apply_steps(table: pl.DataFrame, *steps: Step) -> pl.DataFrame:
    """Return what the steps, one after the other, make of the table."""
    for step in steps:
        table = collect_sorted(step(table.lazy()))
    return table


def collect_sorted(frame: Frame, *keys: str) -> pl.DataFrame:
    """Return the table in the order of its keys, so that sums over it are reproducible.

    It is sorted once it is there: before that, Polars would sum its groups in no order at all.
    """
    table = frame.collect(engine="in-memory")
    first = TASK if TASK in table.columns else GROUP  # a task is of one group
    return table.sort(name for name in (first, *keys) if name in table.columns)


def sum_by_keys(rows: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """Return totals per group and key; a key that is the same in all rows is quickly told.

    Whole numbers give the same sum in any order, and so may be summed as rows stream by.
    """
    frame, keys = rows.lazy(), aggregate.keys
    if len(keys) != 1 or TASK in keys:
        return collect_sorted(sum_keys(frame, aggregate), *keys)
    [key] = keys
    if _is_constant(rows[key]):
        only = pl.lit(rows[key][0], dtype=rows.schema[key]).alias(key)
        found = collect_sorted(sum_keys(frame, aggregate, [GROUP])).with_columns(only)
        return found.select(GROUP, key, *aggregate.totals)  # parts are put below one another
    sums = sum_keys(frame, aggregate)
    streams = rows.height > MANY and _are_whole(sums.collect_schema(), aggregate)
    return sums.collect(engine="streaming" if streams else "in-memory").sort(GROUP, key)


def _are_whole(types: Mapping[str, pl.DataType], aggregate: Aggregate) -> bool:
    return all(types[name].is_integer() for name in aggregate.totals)


def _is_constant(values: pl.Series) -> bool:
    """Say whether all rows have the same value; most often the first and the last tell."""
    if not len(values) or values.null_count() or values[0] != values[-1]:
        return False
    return bool((values == values[0]).all())
