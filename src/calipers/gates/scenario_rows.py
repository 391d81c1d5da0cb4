"""The scenarios of a gate as a table: a narrow row per run, or a row per scenario with its counts.

While no scenario has two runs, its run is all there is to know: a few bits and the id. Both tables
answer the same questions, so whoever asks need not know which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from calipers.metrics.declare.declaration import CLUSTER, GROUP
from calipers.metrics.families.scenarios import passed

ID = "id"


def name_own(name: str) -> str:
    """Return a column of ours, which no value of a metric is called."""
    return f"_run_{name}"


CATEGORY = name_own("category")
SYSTEMS = {name_own(name): name for name in ("model", "tier", "variant")}
OPTIONAL = name_own("optional")  # whether the policy calls the scenario so
RAN, OUTCOME = name_own("ran"), name_own("outcome")  # whether a run did not fail, and passed
JUDGED = ("by_judges", "flagged", "unsettled")  # of a run: yes or no; of a scenario: how many
LOW, HIGH = "__low", "__high"
MOMENTS = N, SUM, SQUARES = "__n", "__sum", "__squares"

_OF_RUN = {
    "runs": pl.lit(1),
    "errors": ~pl.col(RAN),
    "passed": pl.col(OUTCOME),
    "failed": ~pl.col(OUTCOME),
    "judged_runs": pl.col(passed.name).is_not_null(),
    "passes": pl.col(passed.name),
    **{name: pl.col(name_own(name)) for name in JUDGED},
    "categorised": pl.col(RAN) & pl.col(CATEGORY).is_not_null(),
}
COUNTS = tuple(_OF_RUN)


@dataclass(frozen=True, slots=True)
class ScenarioRows:
    """Scenarios of one group or of several."""

    read: Callable[[], pl.LazyFrame]
    is_of_runs: bool  # a row per run, and no scenario has two

    def select(
        self, *names: str, where: pl.Expr | None = None, having: pl.Expr | None = None
    ) -> pl.DataFrame:
        """Return these columns of a row per scenario: counts, `__low` and `__high`, moments.

        `where` is about the rows as they are kept, `having` about the columns.
        """
        rows = self.read() if where is None else self.read().filter(where)
        asked = rows.select(self.express(name).alias(name) for name in names)
        asked = asked if having is None else asked.filter(having)
        return asked.collect(engine="in-memory")

    def express(self, name: str) -> pl.Expr:
        """Return a column of a row per scenario."""
        if not self.is_of_runs or name in (ID, GROUP, CLUSTER):
            return pl.col(name)
        if name in _OF_RUN:
            return _OF_RUN[name].cast(pl.Int32).fill_null(0)
        value, _, part = name.rpartition("__")
        if f"__{part}" == N:
            return pl.col(value).is_not_null().cast(pl.Int64)
        number = pl.col(value).cast(pl.Float64).fill_null(0.0)
        return {SUM: number, SQUARES: number * number}.get(f"__{part}", pl.col(value))


def name_columns(values: Iterable[str], means: Iterable[str]) -> list[str]:
    """Return the columns of a row per scenario, beside group, id and cluster."""
    extremes = [f"{name}{end}" for name in values for end in (LOW, HIGH)]
    return [*COUNTS, *extremes, *(f"{name}{part}" for name in means for part in MOMENTS)]


def add_up(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return a row per scenario of tables that may share some: counts, extremes and moments."""
    rows = pl.concat((table.select(tables[0].columns) for table in tables), how="vertical_relaxed")
    lows, highs = ([name for name in rows.columns if name.endswith(end)] for end in (LOW, HIGH))
    least = [*lows, *({CLUSTER} & {*rows.columns})]
    others = {GROUP, ID, *least, *highs}
    sums = [name for name in rows.columns if name not in others]
    return rows.group_by(GROUP, ID).agg(
        pl.col(sums).sum(), pl.col(least).min(), pl.col(highs).max()
    )
