"""Input and output of an engine, the same for all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

import polars as pl

from calipers.engines.codes import OTHERS
from calipers.engines.totals import GroupTotals
from calipers.metrics.declare.declaration import GROUP
from calipers.records.sources import BadRow
from calipers.statistics.intervals import Interval
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.engines.item_counts import Items
    from calipers.engines.resampling import Resampled

TEXT, ROWS = "text", "rows"
MOST_TEXTS = 1000


@dataclass
class Reading:
    """How much of a source was read."""

    rows: int = 0
    skipped: int = 0
    with_id: int = 0


@dataclass(frozen=True)
class Outcome:
    """Every group's totals, and what was read of each source."""

    groups: GroupTotals
    readings: tuple[Reading, ...]
    having: Mapping[str, int]  # how many rows have each field whose presence decides something
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)  # resampled
    refused: Mapping[str, str] = field(default_factory=dict)  # metrics not resampled, and why
    items: Items | None = None  # what tasks are worth, where a row of each was written
    flakiest: pl.DataFrame | None = None  # some flaky tasks, where a row per task was wanted
    attempts: pl.DataFrame | None = None  # then too: each group's cost of pass of each task
    runs: pl.DataFrame | None = None  # of tiers, where they are few: each run's task and composite
    tallies: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Of each text that is counted: a group, the text and how many rows have it."""

    @property
    def present(self) -> frozenset[str]:
        """The fields that any row has."""
        return frozenset(name for name, count in self.having.items() if count)

    def add_resampled(self, found: Mapping[str, Resampled]) -> Outcome:
        """Return the outcome with the groups' resampled intervals."""
        refused = {name: why for each in found.values() for name, why in each.refused.items()}
        intervals = {group: each.intervals for group, each in found.items()}
        return replace(self, intervals=intervals, refused=refused)

    def rename_group(self, text: str) -> Outcome:
        """Return the outcome of the only group under another text."""
        group = pl.lit(text).alias(GROUP)
        tables = {name: getattr(self, name) for name in ("flakiest", "attempts", "runs")}
        return replace(
            self,
            groups=dict(zip([text], self.groups.values(), strict=False)),
            intervals=dict(zip([text], self.intervals.values(), strict=False)),
            tallies={name: each.with_columns(group) for name, each in self.tallies.items()},
            **{name: each.with_columns(group) for name, each in tables.items() if each is not None},
        )

    def sum_groups(self, name: str) -> int:
        """Return a count over all groups."""
        return int(sum(totals.get(name, 0) for totals in self.groups.values()))


class TextTally:
    """How many rows of each group have each text; of too many different ones the rarest as one."""

    def __init__(self) -> None:
        self.table = pl.DataFrame(schema={GROUP: pl.String(), TEXT: pl.String(), ROWS: pl.Int64()})

    def add(self, counted: pl.DataFrame) -> None:
        """Add the counts of some rows."""
        rows = pl.concat([self.table, counted.drop_nulls(TEXT).cast(self.table.schema)])
        table = rows.group_by(GROUP, TEXT).agg(pl.col(ROWS).sum())
        if table.height > MOST_TEXTS:
            table = table.sort(ROWS, GROUP, TEXT, descending=[True, False, False])
            rest = table.slice(MOST_TEXTS).with_columns(pl.lit(OTHERS).alias(TEXT))
            table = (
                pl.concat([table.head(MOST_TEXTS), rest])
                .group_by(GROUP, TEXT)
                .agg(pl.col(ROWS).sum())
            )
        self.table = table.sort(GROUP, TEXT)


class Sinks(Protocol):
    """Where an engine puts what it finds on the way."""

    wants_samples: bool
    samples_table: str | None  # to which Spark writes them itself
    wants_tasks: bool

    def take_samples(self, rows: pl.DataFrame) -> None:
        """Take some rows of per-sample values, in order."""

    def take_tasks(self, totals: pl.DataFrame) -> None:
        """Take the totals of some tasks' runs, a row per task, in any order."""

    def take_bad_rows(self, rows: Sequence[BadRow]) -> None:
        """Take the rows that could not be read, or raise at the first."""

    def report_progress(self, share: float) -> None:
        """Take the share of the work that is done."""
