"""The tasks of a part: those that occur once, and the rows of those that occur several times."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from calipers.engines.plan import IDENTITY
from calipers.metrics.declare.declaration import TASK, Aggregate


class TaskCounts:
    """A part's rows by how often their tasks occur in it; all rows of a task are in one part."""

    def __init__(self, part: pl.DataFrame) -> None:
        self.part = part
        known = part.filter(pl.col(TASK).is_not_null()) if part[TASK].null_count() else part
        if known[TASK].n_unique() == known.height:  # quicker than to look for them
            self.single, self.repeated = known, known.clear()
        else:
            is_repeated = known[TASK].is_duplicated()
            self.single = known.filter(~is_repeated)
            self.repeated = known.filter(is_repeated).sort(TASK, maintain_order=True)

    @cached_property
    def repeated_calls(self) -> pl.DataFrame:
        """The rows whose call (of a task, by its run) occurs twice or more."""
        return self.repeated.filter(pl.col(IDENTITY).is_duplicated())

    def select(self, aggregate: Aggregate) -> pl.DataFrame:
        """Return the rows that can count; a task or call that occurs once is never repeated."""
        if aggregate.every_task:
            return self.part
        return self.repeated_calls if IDENTITY in aggregate.keys else self.repeated


def has_few_values(aggregate: Aggregate) -> bool:
    """Say whether many rows must be alike in what the aggregate adds up."""
    return all(feature.dtype == pl.Boolean for feature in aggregate.features)
