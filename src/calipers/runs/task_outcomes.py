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
    """Takes rows with an id, the fields of their system, and whether they are right."""

    def __init__(self) -> None:
        self._counts: pl.DataFrame | None = None
        self._ids = pl.Series(dtype=pl.UInt64)  # hashes: an id may be long
        self._too_many = False

    def take(self, rows: pl.DataFrame, systems: Sequence[str], right: pl.Expr) -> None:
        """Count rows; those of which it is not known whether they are right count as no run."""
        known = rows.filter(pl.col("id").is_not_null())
        self._ids = pl.concat([self._ids, known["id"].cast(pl.String).hash()]).unique()
        if self._too_many:
            return
        new = (
            known.select(pl.col("id").cast(pl.String), *systems, right.alias(_RIGHT))
            .drop_nulls(_RIGHT)
            .with_columns(pl.lit(1, pl.Int64).alias(_RUNS), pl.col(_RIGHT).cast(pl.Int64))
        )
        whole = new if self._counts is None else pl.concat([self._counts, new])
        self._counts = whole.group_by("id", *systems).agg(pl.col(_RIGHT, _RUNS).sum())
        self._too_many = self._counts.height > _MOST

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return self._ids.len()

    def list_hardest(self, systems: Sequence[str]) -> tuple[TaskOutcome, ...]:
        """Return the tasks that were solved least often; none where there are very many."""
        if self._counts is None or self._too_many:
            return ()
        whole = self._counts.group_by("id").agg(pl.col(_RIGHT, _RUNS).sum())
        share = (pl.col(_RIGHT) / pl.col(_RUNS)).alias("share")
        ordered = sorted(
            whole.select("id", share, _RIGHT, _RUNS).iter_rows(),
            key=lambda row: (row[1], split_natural(row[0])),
        )[:LISTED]
        kept = self._counts.filter(pl.col("id").is_in([row[0] for row in ordered]))
        parts = kept.group_by("id", *systems).agg(pl.col(_RIGHT, _RUNS).sum())
        by: dict[str, dict[tuple[str | None, ...], tuple[int, int]]] = {}
        for id_, *key, right, runs in parts.iter_rows():
            by.setdefault(id_, {})[tuple(key)] = (right, runs)
        return tuple(
            TaskOutcome(id=id_, right=right, runs=runs, by_system=by[id_] if systems else {})
            for id_, _, right, runs in ordered
        )
