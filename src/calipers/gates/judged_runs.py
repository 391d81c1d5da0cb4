"""Who judged the runs of each category, and of the scenarios that a policy names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from calipers.engines.plan import FAILED
from calipers.gates.undecided import JudgedRuns, Judgments
from calipers.metrics.declare.declaration import GROUP
from calipers.metrics.judged.who import JUDGED_BY
from calipers.metrics.scenarios.passing import passed

_CATEGORY, _SCENARIO, _OPEN, _ROWS = "category", "scenario", "open", "rows"
_KEYS = (GROUP, _CATEGORY, _SCENARIO, JUDGED_BY, _OPEN)


class JudgedTexts:
    """Counts what rows say of their judges, batch by batch."""

    def __init__(self, named: Sequence[str]) -> None:
        self._named = list(named)
        self._parts: list[pl.DataFrame] = []

    def take(self, rows: pl.DataFrame, *, category: str) -> None:
        """Count the rows that were judged, or were to be; `category` names the column."""
        judged = rows.filter(~pl.col(FAILED) & pl.col(JUDGED_BY).is_not_null())
        named = pl.when(pl.col("id").is_in(self._named)).then("id").cast(pl.String)
        told = judged.select(
            GROUP,
            JUDGED_BY,
            pl.col(category).alias(_CATEGORY),
            named.alias(_SCENARIO),
            pl.col(passed.name).is_null().alias(_OPEN),
            pl.lit(1, pl.Int64).alias(_ROWS),
        )
        self._parts.append(_sum_parts([told]))

    def compact(self) -> None:
        """Add up what was counted so far."""
        self._parts = [_sum_parts(self._parts)]

    def regroup(self, regrouped: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Put what was counted so far into other groups."""
        self._parts = [regrouped(_sum_parts(self._parts))]

    def group(self) -> dict[str, Judgments]:
        """Return the judgments of each group that has any."""
        runs: dict[str, list[JudgedRuns]] = {}
        for group, category, scenario, text, is_open, count in _sum_parts(self._parts).iter_rows():
            run = JudgedRuns(category, scenario, text, is_open, count)
            runs.setdefault(group, []).append(run)
        return {group: Judgments(each) for group, each in runs.items()}


def _sum_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).group_by(_KEYS).agg(pl.col(_ROWS).sum()).sort(_KEYS)
