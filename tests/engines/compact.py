"""Compact tables as an engine makes them, from records of any numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from calipers.engines.features import measure_chunk
from calipers.engines.plan import Plan
from calipers.records.batch import Batch, DecodedChunk
from calipers.records.fields import find_field


def compact(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows with every feature, whatever the fields would refuse."""
    schema = {name: find_field(name).dtype for name in plan.fields}
    records = pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in schema}, schema=schema
    )
    return measure_chunk(DecodedChunk(lambda: Batch(records), 1.0), plan, list(plan.schema)).rows
