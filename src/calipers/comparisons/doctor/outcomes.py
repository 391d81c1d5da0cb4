"""The outcome of a record that most questions are about: right, passed, or a judge's score."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from calipers.comparisons.doctor.facts import CORRECT, IMPL, PASSED, Facts

OUTCOME = "outcome"
_METRICS = {"accuracy": CORRECT, "pass_rate": PASSED, "impl_rate": IMPL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The records that have the outcome, as a number, and the metric that is its mean."""

    metric: str
    rows: pl.DataFrame

    @property
    def is_share(self) -> bool:
        """Say whether the outcome is yes or no."""
        return self.metric != "impl_rate"


def find_outcome(facts: Facts) -> Outcomes | None:
    """Return the first outcome that records have; None if they have none."""
    for metric, column in _METRICS.items():
        rows = facts.ended.drop_nulls(column)
        if rows.height:
            value = pl.col(column).cast(pl.Float64).alias(OUTCOME)
            return Outcomes(metric=metric, rows=rows.with_columns(value))
    return None
