"""What goes in and out of an engine, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from calipers.engines.totals import GroupTotals
from calipers.sources import BadRow
from calipers.stats.intervals import Interval


@dataclass
class Reading:
    """How much of a source was read."""

    rows: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Outcome:
    """Every group's totals, and what was read of each source."""

    groups: GroupTotals
    readings: tuple[Reading, ...]
    having: Mapping[str, int]  # how many rows have each field whose presence decides something
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)  # resampled
    flakiest: pl.DataFrame | None = None  # some flaky tasks, where a row per task was wanted
    attempts: pl.DataFrame | None = None  # then too: each group's cost of pass of each task

    @property
    def present(self) -> frozenset[str]:
        """The fields that any row has."""
        return frozenset(name for name, count in self.having.items() if count)


class Sinks(Protocol):
    """Where an engine puts what it finds on the way."""

    wants_samples: bool
    wants_tasks: bool

    def samples(self, rows: pl.DataFrame) -> None:
        """Take some rows of per-sample values, in order."""
        ...

    def tasks(self, totals: pl.DataFrame) -> None:
        """Take the totals of some tasks' runs, a row per task, in any order."""
        ...

    def bad_rows(self, rows: Sequence[BadRow]) -> None:
        """Take the rows that could not be read, or raise at the first."""
        ...

    def progress(self, share: float) -> None:
        """Hear how much of the work is done."""
        ...
