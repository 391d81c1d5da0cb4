"""What records show (right, wrong, a failed call), told once for all rows of a batch alike."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from calipers.engines.codes import number_values
from calipers.engines.plan import FAILED
from calipers.metrics.answers.accuracy import correct
from calipers.metrics.scenarios.passing import passed
from calipers.support.quick_dataclasses import dataclass

KIND, FAULT, RECORDS = "_kind", "_fault", "_records"
SHOWN = (FAILED, correct.name, passed.name)  # the columns that a kind is told by
GOOD = pl.coalesce(passed.name, correct.name)
_KINDS = pl.Enum(("failed", "right", "unknown", "wrong"))
_FAULT_KIND = r"^([a-z][a-z_]{2,30}):"
_NUMBER = "_number"


@dataclass(frozen=True, slots=True)
class RowKinds:
    """A number per row, equal for rows of one system, kind and fault; `different` has one of each.

    Its columns are those of the system, `KIND`, `FAULT`, and how many `RECORDS` there are.
    """

    numbers: pl.Series
    different: pl.DataFrame

    @classmethod
    def tell(cls, rows: pl.DataFrame, systems: Sequence[str], error: str) -> RowKinds:
        """Tell the rows of a batch apart, of which there is one at least."""
        told = rows.select(*systems, *SHOWN, _read_fault(rows[error]).alias(FAULT))
        varied = [each for each in told if each.null_count() < rows.height]
        numbers, first = number_values(pl.DataFrame(varied).to_struct(_NUMBER))
        counts = numbers.alias(_NUMBER).value_counts(name=RECORDS).sort(_NUMBER)
        kinds = told[first].select(*systems, _classify().alias(KIND), FAULT)
        return cls(numbers, kinds.with_columns(counts[RECORDS].cast(pl.Int64)))

    def list_rows(self, rows: pl.DataFrame, some: pl.DataFrame, column: str) -> pl.DataFrame:
        """Return a column of the rows that are of some of these kinds, beside the kinds."""
        numbered = some.with_columns(some[_NUMBER].cast(self.numbers.dtype))
        wanted = self.numbers.is_in(numbered[_NUMBER].implode())
        found = rows.select(column, self.numbers.alias(_NUMBER)).filter(wanted)
        return found.join(numbered, on=_NUMBER, maintain_order="left").drop(_NUMBER)

    @property
    def numbered(self) -> pl.DataFrame:
        """`different`, with the number of each."""
        return self.different.with_row_index(_NUMBER)


def _classify() -> pl.Expr:
    """Return whether the call failed, and if not, whether the run passed or was right."""
    return (
        pl.when(FAILED)
        .then(pl.lit("failed", _KINDS))
        .when(GOOD)
        .then(pl.lit("right", _KINDS))
        .when(~GOOD)
        .then(pl.lit("wrong", _KINDS))
        .otherwise(pl.lit("unknown", _KINDS))
    )


def _read_fault(errors: pl.Series) -> pl.Expr:
    """Return the kind in front of an error's message, if the call failed."""
    if errors.null_count() == len(errors):
        return pl.lit(None, pl.String)
    kind = pl.lit(errors.cast(pl.String)).str.extract(_FAULT_KIND)
    return pl.when(FAILED).then(kind.fill_null("error"))
