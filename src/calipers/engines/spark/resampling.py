"""The bootstrap in the workers: each group's clusters are resampled where its rows are gathered.

The code, the seeds and the order of the rows are those of the Polars engine, so the numbers are
the same. As there, a group has to fit in memory, here in that of one worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from calipers.engines.plan import Plan
from calipers.engines.resampling import Resampled, bootstrap, seed_of
from calipers.engines.spark.session import declare_columns
from calipers.engines.totals import GroupTotals
from calipers.metrics.declare.declaration import GROUP
from calipers.statistics.intervals import Interval

_METRIC, _REASON = "metric", "reason"
_FOUND = {
    GROUP: pl.String(),
    _METRIC: pl.String(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "stderr": pl.Float64(),
    _REASON: pl.String(),
}


def resample_groups(good: DataFrame, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
    """Return each group's intervals by resampling its clusters."""
    schema = {name: dtype for name, dtype in plan.schema.items() if name not in plan.having}
    rows = good.select(*schema).groupBy(GROUP)

    def work(table: pa.Table) -> pa.Table:
        return _resample(table, plan, groups, schema)

    found: dict[str, tuple[dict[str, Interval], dict[str, str]]] = {}
    for row in rows.applyInArrow(work, declare_columns(_FOUND)).collect():
        intervals, refused = found.setdefault(row[GROUP], ({}, {}))
        if row[_REASON] is not None:
            refused[row[_METRIC]] = row[_REASON]
        else:
            bounds = {name: row[name] for name in ("low", "high", "stderr")}
            intervals[row[_METRIC]] = Interval(**bounds)
    return {group: Resampled(*each) for group, each in sorted(found.items())}


def _resample(
    table: pa.Table, plan: Plan, groups: GroupTotals, schema: Mapping[str, pl.DataType]
) -> pa.Table:
    """Return, in a worker, the intervals of one group as an Arrow table, given its rows."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    rows = frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    group = str(rows[GROUP][0])
    found = bootstrap(rows, plan, groups[group], seed_of(plan, group))
    told: list[tuple[Any, ...]] = [
        (group, name, each.low, each.high, each.stderr, None)
        for name, each in found.intervals.items()
    ]
    told += [(group, name, None, None, None, why) for name, why in found.refused.items()]
    made = pl.DataFrame(told, schema=_FOUND, orient="row")
    kinds = {
        name: pa.string() if dtype == pl.String else pa.float64() for name, dtype in _FOUND.items()
    }
    return made.to_arrow().cast(pa.schema(kinds))  # Spark knows no large strings here
