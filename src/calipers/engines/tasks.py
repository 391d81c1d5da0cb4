"""The tasks of a part: those that occur once, and the rows of those that occur several times."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from calipers.engines.plan import IDENTITY
from calipers.metrics.declare.declaration import TASK, Aggregate
from calipers.support.late import np

_ODD = 0x1E3779B97F4A7C15  # times which numbers of tasks are spread over all numbers
_FEW_ROWS = 10_000  # of which the repeated ones are found sooner than NumPy is loaded


class TaskCounts:
    """A part's rows by how often their tasks occur in it; all rows of a task are in one part."""

    def __init__(self, part: pl.DataFrame, *, are_single: bool = False) -> None:
        self.part = part
        known = part.filter(pl.col(TASK).is_not_null()) if part[TASK].null_count() else part
        if are_single:
            self.single, self.repeated = known, known.clear()
        elif known[TASK].flags["SORTED_ASC"] and known.height > _FEW_ROWS:
            tasks = known[TASK].to_numpy()
            same = np.concatenate(([False], tasks[1:] == tasks[:-1], [False]))
            repeated = same[1:] | same[:-1]
            self.repeated = known if repeated.all() else known.filter(repeated)
            self.single = known.filter(~repeated)
        elif not has_repeated(known[TASK]):  # quicker than to look for them
            self.single, self.repeated = known, known.clear()
        else:
            duplicated = known[TASK].is_duplicated()
            self.single = known.filter(~duplicated)
            self.repeated = known.filter(duplicated).sort(TASK, maintain_order=True)

    @cached_property
    def repeated_calls(self) -> pl.DataFrame:
        """The rows whose call (of a task, by its run) occurs twice or more."""
        # Different calls are told by one number more quickly than by two.
        call = pl.col(TASK) * _ODD + pl.col(IDENTITY).fill_null(0)
        if not has_repeated(self.repeated.select(call).to_series()):
            return self.repeated.clear()
        return self.repeated.filter(pl.struct(TASK, IDENTITY).is_duplicated())

    def select(self, aggregate: Aggregate) -> pl.DataFrame:
        """Return the rows that can count; a task or call that occurs once is never repeated."""
        if aggregate.every_task:
            return self.part
        return self.repeated_calls if IDENTITY in aggregate.keys else self.repeated

    def have_any(self, aggregate: Aggregate) -> bool:
        """Say whether any row may count: none does where only repeated tasks do, and none is."""
        return TASK not in aggregate.keys or aggregate.every_task or self.repeated.height > 0


def has_repeated(numbers: pl.Series) -> bool:
    """Say whether any number is there twice."""
    known = numbers.drop_nulls()
    return known.n_unique() < len(known)


def has_few_values(aggregate: Aggregate) -> bool:
    """Say whether many rows must be alike in what the aggregate adds up."""
    return all(feature.dtype == pl.Boolean for feature in aggregate.features)
