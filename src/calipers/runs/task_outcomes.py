"""How often each task was solved, counted while records are measured."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.runs.report_data import TaskOutcome
from calipers.scores.keys import split_natural

_MOST = 200_000  # pairs of a task and a system that are counted
LISTED = 20  # tasks of a report
_RIGHT, _RUNS = "right", "runs"


class TaskOutcomes:
    """Counts, by task and system, how many runs are right."""

    def __init__(self, systems: Sequence[str]) -> None:
        self._keys = ("id", *systems)
        self._counts: list[pl.DataFrame] = []
        self._waiting = 0  # rows of these tables that are not added up yet
        self._too_many = False

    def take(self, rows: pl.DataFrame, right: pl.Expr) -> None:
        """Count rows; those of which it is not known whether they are right count as no run."""
        if self._too_many:
            return
        known = rows.select(*self._keys, right.cast(pl.Int64).alias(_RIGHT)).drop_nulls(_RIGHT)
        self._counts.append(known.with_columns(pl.lit(1, pl.Int64).alias(_RUNS)))
        self._waiting += known.height
        if self._waiting > _MOST:
            self._add_up()

    def _add_up(self) -> None:
        whole = pl.concat(self._counts)
        self._too_many = whole.select(pl.struct(self._keys).hash()).to_series().n_unique() > _MOST
        self._counts = [] if self._too_many else [_sum_runs(whole, self._keys)]
        self._waiting = 0

    def list_hardest(self, systems: Sequence[str]) -> tuple[TaskOutcome, ...]:
        """Return the tasks that were solved least often; none where there are very many."""
        if self._counts:
            self._add_up()
        if not self._counts:
            return ()
        [counts] = self._counts
        whole = _sum_runs(counts, ["id"])
        share = (pl.col(_RIGHT) / pl.col(_RUNS)).alias("share")
        ordered = sorted(
            whole.select("id", share, _RIGHT, _RUNS).iter_rows(),
            key=lambda row: (row[1], split_natural(row[0])),
        )[:LISTED]
        kept = counts.filter(pl.col("id").is_in([row[0] for row in ordered]))
        parts = _sum_runs(kept, ["id", *systems])
        by: dict[str, dict[tuple[str | None, ...], tuple[int, int]]] = {}
        for id_, *key, right, runs in parts.iter_rows():
            by.setdefault(id_, {})[tuple(key)] = (right, runs)
        return tuple(
            TaskOutcome(id=id_, right=right, runs=runs, by_system=by[id_] if systems else {})
            for id_, _, right, runs in ordered
        )


def _sum_runs(counts: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return counts.group_by(keys).agg(pl.col(_RIGHT, _RUNS).sum())
