"""Input and output of an engine, the same for all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from calipers.engines.group_codes import OTHERS
from calipers.engines.group_totals import GroupTotals, list_blocks
from calipers.metrics.declare.declaration import GROUP, add_up
from calipers.records.batch import BadRow, count_bad
from calipers.statistics.intervals import Interval

if TYPE_CHECKING:
    from calipers.engines.item_counts import Items
    from calipers.engines.resampling import Resampled

TEXT, ROWS = "text", "rows"
MOST_TEXTS = 1000


@dataclass
class RowCounts:
    """Rows of a source that were read, and that were skipped."""

    rows: int = 0
    skipped: int = 0
    nulled: int = 0  # values outside their range
    with_id: int = 0

    def add_bad(self, rows: Sequence[BadRow]) -> None:
        """Count rows that were left out, and values that were made null."""
        skipped, nulled = count_bad(rows)
        self.skipped += skipped
        self.nulled += nulled


@dataclass(frozen=True)
class Outcome:
    """Every group's totals, and what was read of each source."""

    groups: GroupTotals
    readings: tuple[RowCounts, ...]
    having: Mapping[str, int]  # how many rows have each field whose presence decides something
    has_repeats: bool = False  # whether any task has several rows in a group
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)  # resampled
    refused: Mapping[str, str] = field(default_factory=dict)  # metrics not resampled, and why
    items: Items | None = None  # what tasks are worth, where a row of each was written
    flakiest: pl.DataFrame | None = None  # some flaky tasks, where a row per task was wanted
    attempts: pl.DataFrame | None = None  # then too: each group's cost of pass of each task
    runs: pl.DataFrame | None = None  # of tiers, where they are few: each run's task and composite
    tallies: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """The counted texts, by feature: a table of group, text and number of rows."""

    @property
    def present(self) -> frozenset[str]:
        """The fields that any row has."""
        return frozenset(name for name, count in self.having.items() if count)

    def add_resampled(self, by_group: Mapping[str, Resampled]) -> Outcome:
        """Return the outcome with the groups' resampled intervals."""
        refused = {
            name: why for resampled in by_group.values() for name, why in resampled.refused.items()
        }
        intervals = {group: resampled.intervals for group, resampled in by_group.items()}
        return replace(self, intervals=intervals, refused=refused)

    def rename_group(self, text: str) -> Outcome:
        """Return the outcome of the only group under another text."""
        group = pl.lit(text).alias(GROUP)
        totals: list[Any] = list(self.groups.values())
        tables = {name: getattr(self, name) for name in ("flakiest", "attempts", "runs")}
        return replace(
            self,
            groups=dict(zip([text], totals, strict=False)),
            intervals=dict(zip([text], self.intervals.values(), strict=False)),
            tallies={name: tally.with_columns(group) for name, tally in self.tallies.items()},
            **{
                name: table.with_columns(group)
                for name, table in tables.items()
                if table is not None
            },
        )

    def sum_groups(self, name: str) -> int:
        """Return a count over all groups."""
        return add_up(list_blocks(self.groups), name)


class TextTally:
    """The rows of each group by text; the rarest of too many different texts count as one."""

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
    """What an engine writes while it reads: samples, figures, rows for watchers."""

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
