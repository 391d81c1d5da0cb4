"""The bootstrap in the workers: each group's clusters are resampled where its rows are gathered.

The code, the seeds and the order of the rows are those of the Polars engine, so the numbers are
the same. As there, a group has to fit in memory, here in that of one worker.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from calipers.engines.plan import Plan
from calipers.engines.resampling import Resampled, bootstrap, seed_of
from calipers.engines.spark.parts import ClusterRows
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


def resample_groups(rows: ClusterRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
    """Return each group's intervals by resampling its clusters."""

    def resample(group: str, own: pl.DataFrame) -> pl.DataFrame:
        found = bootstrap(own, plan, groups[group], seed_of(plan, group))
        told: list[tuple[Any, ...]] = [
            (group, name, each.low, each.high, each.stderr, None)
            for name, each in found.intervals.items()
        ]
        told += [(group, name, None, None, None, why) for name, why in found.refused.items()]
        return pl.DataFrame(told, schema=_FOUND, orient="row")

    resampled: dict[str, Resampled] = {}
    for table in rows.map_groups(resample):
        intervals: dict[str, Interval] = {}
        refused: dict[str, str] = {}
        for row in table.iter_rows(named=True):
            if row[_REASON] is not None:
                refused[row[_METRIC]] = row[_REASON]
            else:
                bounds = {name: row[name] for name in ("low", "high", "stderr")}
                intervals[row[_METRIC]] = Interval(**bounds)
        if table.height:
            resampled[table[GROUP][0]] = Resampled(intervals, refused)
    return dict(sorted(resampled.items()))
