"""A chunk of a source, read and measured in one go: the step that runs in threads and workers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.engines.measuring import measure_records
from calipers.engines.plan import Plan
from calipers.records.fields import BadValue
from calipers.records.sources import CHECK, BadRow, Chunk, UnusualRows
from calipers.support.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """Some rows with their features, the bad rows among them, and how far we are."""

    rows: pl.DataFrame
    bad: tuple[BadRow, ...]
    done: float


def measure_chunk(chunk: Chunk, plan: Plan, columns: Sequence[str]) -> MeasuredBatch:
    """Return the measured chunk: the fast way if its checks hold, else row by row."""
    try:
        records = chunk.lazy().collect(engine="in-memory")
        checks = [name for name in records.columns if name.startswith(CHECK)]
        plain_keys = not any(records.schema[name].is_nested() for name in plan.keys)
        if plain_keys and chunk.is_trusted(records.select(checks)):
            return MeasuredBatch(_measure(records.drop(checks), plan, columns), (), chunk.done)
    except (pl.exceptions.PolarsError, UnusualRows, BadValue):
        pass
    batch = chunk.exact()
    return MeasuredBatch(_measure(batch.frame, plan, columns), batch.bad, chunk.done)


def _measure(records: pl.DataFrame, plan: Plan, columns: Sequence[str]) -> pl.DataFrame:
    # The in-memory engine: a batch function sees the whole batch once, not in many small pieces.
    return measure_records(plan, records).select(*columns).collect(engine="in-memory")


def number_rows(rows: pl.DataFrame, last: int) -> pl.DataFrame:
    """Return the rows with a number, from 1, if they have no id; `last` is the last one given."""
    if not rows["id"].null_count():
        return rows
    number = pl.int_range(last - rows.height + 1, last + 1, dtype=pl.Int64).cast(pl.String)
    return rows.with_columns(pl.coalesce("id", number))
