"""The rows worth reading, chosen while records are read: a bounded number of each kind.

Rows are told apart once per batch by system, kind (right, wrong, a failed call) and fault. Once
enough rows have been chosen, a row is considered only if it is more confident than the last one
chosen of its system and kind. That leaves few rows of a batch, and does not change the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import polars as pl

from calipers.engines.features import copy_texts
from calipers.engines.group_codes import number_values
from calipers.engines.plan import FAILED
from calipers.metrics.families.answers import correct
from calipers.metrics.families.scenarios import passed

KIND, FAULT, RECORDS = "_kind", "_fault", "_records"
SHOWN = (FAILED, correct.name, passed.name)  # the columns that a kind is told by
GOOD = pl.coalesce(passed.name, correct.name)
_KINDS = pl.Enum(("failed", "right", "unknown", "wrong"))
_FAULT_KIND = r"^([a-z][a-z_]{2,30}):"
_KIND_NUMBER = "_number"


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
        numbers, first = number_values(pl.DataFrame(varied).to_struct(_KIND_NUMBER))
        counts = numbers.alias(_KIND_NUMBER).value_counts(name=RECORDS).sort(_KIND_NUMBER)
        kinds = told[first].select(*systems, _classify().alias(KIND), FAULT)
        return cls(numbers, kinds.with_columns(counts[RECORDS].cast(pl.Int64)))

    def list_rows(self, rows: pl.DataFrame, some: pl.DataFrame, column: str) -> pl.DataFrame:
        """Return a column of the rows that are of some of these kinds, beside the kinds."""
        numbered = some.with_columns(some[_KIND_NUMBER].cast(self.numbers.dtype))
        wanted = self.numbers.is_in(numbered[_KIND_NUMBER].implode())
        found = rows.select(column, self.numbers.alias(_KIND_NUMBER)).filter(wanted)
        return found.join(numbered, on=_KIND_NUMBER, maintain_order="left").drop(_KIND_NUMBER)

    @property
    def numbered(self) -> pl.DataFrame:
        """`different`, with the number of each."""
        return self.different.with_row_index(_KIND_NUMBER)


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


_OF_KIND, _OF_SYSTEM, _OF_TASK = "_of_kind", "_of_system", "_of_task"
_CONFIDENCE, _AGAIN, _RANK, _ROW = "_sure", "_again", "_rank", "_row"
_LEAST = "_least"
_FIRST_ROWS = 5_000  # rows that are considered before the rest of the first batch
_MOST_WAITING = 2_000  # rows, with their texts, that wait to be considered together


class SampleChooser:
    """Keeps the first rows of each kind, of all systems in turn, the most confident first.

    Other tasks go before further runs of one.
    """

    def __init__(self, most: int, *, kind: str, systems: Sequence[str], sure: str) -> None:
        self._most = most
        self._kind = kind
        self._systems = list(systems)
        self._sure = sure
        self._bars: dict[int, float] = {}  # what a row of a system and kind has to exceed
        self._chosen: pl.DataFrame | None = None
        self._waiting: list[pl.DataFrame] = []

    @property
    def rows(self) -> pl.DataFrame | None:
        """The rows chosen so far; None before any were seen."""
        if self._waiting:
            self._choose()
        return self._chosen

    def take(self, rows: pl.DataFrame, kinds: RowKinds) -> None:
        """Look at some more rows, of these systems and kinds; they have an id."""
        numbers = kinds.numbers
        if (
            self._chosen is None and rows.height > _FIRST_ROWS
        ):  # so that few of the others have to be
            self.take(rows[:_FIRST_ROWS], replace(kinds, numbers=numbers[:_FIRST_ROWS]))
            rows, numbers = rows[_FIRST_ROWS:], numbers[_FIRST_ROWS:]
        new = self._select(rows, numbers, kinds.different)
        if new.height or self._chosen is None:
            self._waiting.append(copy_texts(new) if new.height < _MOST_WAITING else new)
        if self._chosen is None or sum(each.height for each in self._waiting) >= _MOST_WAITING:
            self._choose()

    def _select(
        self, rows: pl.DataFrame, numbers: pl.Series, different: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the rows that may be among the first, with their kinds."""
        if self._bars:
            of_system = different.select(pl.struct(*self._systems, self._kind).hash()).to_series()
            bars = pl.Series(map(self._bars.get, of_system), dtype=pl.Float64)
            sure = rows[self._sure].cast(pl.Float64).fill_null(-inf)
            beyond = (sure > bars.gather(numbers)).fill_null(value=True)
            rows, numbers = rows.filter(beyond), numbers.filter(beyond)
        return rows.with_columns(different[self._kind].gather(numbers))

    def _choose(self) -> None:
        known = [] if self._chosen is None else [self._chosen]
        rows = pl.concat([*known, *self._waiting], how="vertical_relaxed")
        self._waiting = []
        narrow = rows.select(  # without texts: numbers are told apart several times as fast
            pl.col(self._sure).cast(pl.Float64).alias(_CONFIDENCE),
            pl.struct(self._kind).hash().alias(_OF_KIND),
            pl.struct(*self._systems, self._kind).hash().alias(_OF_SYSTEM),
            pl.struct(*self._systems, self._kind, "id").hash().alias(_OF_TASK),
        ).with_row_index(_ROW)
        narrow = narrow.sort(_CONFIDENCE, descending=True, nulls_last=True, maintain_order=True)
        is_first = narrow[_OF_TASK].is_first_distinct()
        firsts = narrow.filter(is_first).with_columns(pl.lit(0, pl.Int64).alias(_AGAIN))
        again = pl.int_range(1, pl.len() + 1).over(_OF_TASK)
        further = narrow.filter(~is_first).with_columns(again.alias(_AGAIN))
        narrow = pl.concat([firsts, further]).sort(_AGAIN, maintain_order=True)
        of_system = pl.int_range(pl.len()).over(_OF_SYSTEM)
        of_kind = pl.int_range(pl.len()).over(_OF_KIND)
        narrow = narrow.with_columns(of_system.alias(_RANK)).sort(_RANK, maintain_order=True)
        chosen = narrow.filter(of_kind < self._most)
        self._chosen = copy_texts(rows[chosen[_ROW]])
        self._bars = _find_bars(chosen, self._most)


def _find_bars(chosen: pl.DataFrame, most: int) -> dict[int, float]:
    """Return the confidence that a further row of a system and kind has to exceed, if any.

    There is one where as many rows of the kind are chosen as may be, of a task each, and the system
    has its full share: as many as any other, or one less, which then was the least confident.
    """
    sure = pl.col(_CONFIDENCE).fill_null(-inf)
    last = pl.col(_RANK).max().over(_OF_KIND)
    full = (pl.len().over(_OF_KIND) >= most) & (pl.col(_AGAIN).max().over(_OF_KIND) == 0)
    at_last = pl.when(pl.col(_RANK) == last).then(sure).min().over(_OF_KIND)
    found = (
        chosen.with_columns(last.alias("_last"), full.alias("_full"), at_last.alias("_at_last"))
        .group_by(_OF_SYSTEM)
        .agg(
            pl.len().alias("_share"),
            pl.first("_last", "_full", "_at_last"),
            sure.min().alias(_LEAST),
        )
        .filter(pl.col("_full") & (pl.col("_share") >= pl.col("_last")))
        .select(
            _OF_SYSTEM,
            pl.when(pl.col("_share") > pl.col("_last"))
            .then(_LEAST)
            .otherwise(pl.min_horizontal(_LEAST, "_at_last")),
        )
    )
    return dict(found.iter_rows())
