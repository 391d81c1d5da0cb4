"""The compact table of a whole run, in parts that each fit in memory.

Small tables stay in memory as one part. Beyond a limit, rows go to temporary files (`spilling`), so
that memory stays flat. Groups are small numbers in it, and a part is in their order: tables are
grouped by them many times, and groups of adjacent rows are summed several times as fast. Columns
without a value take no room.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import polars as pl

from calipers.engines import spilling
from calipers.engines.codes import Codes
from calipers.engines.plan import SAME_ID
from calipers.engines.spilling import SpilledRows, split_finished
from calipers.engines.threads import map_in_order
from calipers.metrics.declare.declaration import GROUP, TASK

HELD_BYTES = 160 << 20
_STAYING = (GROUP, TASK, SAME_ID)
_FEW_GROUPS = 64  # so many pieces of each table are put together one by one

MakeTables = Callable[[pl.DataFrame], list[pl.DataFrame]]
"""Makes tables of a part, in a thread or in a worker elsewhere; always as many, or none."""


class GroupedRows(ABC):
    """Rows in parts, each of a group that a small number stands for."""

    is_local = True  # whether the rows are on this machine, and may all be looked at

    def __init__(self) -> None:
        self.codes = Codes()
        self.rows = 0

    @property
    def groups(self) -> list[str]:
        """The groups by their numbers."""
        return self.codes.texts

    def encode(self, group: str) -> int:
        """Return the number that stands for a group in the parts."""
        return self.codes.number(group)

    def encode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with numbers in the place of groups."""
        return encode_groups(table, self.codes)

    def decode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with groups in the place of their numbers."""
        return decode_groups(table, self.codes)

    @abstractmethod
    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, or some columns of it; all rows of a task are in one part.

        A part is one piece of memory: a sum over it does not show where batches began and ended.
        """

    def list_groups(self) -> Iterator[pl.Series]:
        """Yield the groups of each part, by their numbers, row by row."""
        return (part[GROUP] for part in self.parts([GROUP]))

    def map_parts(
        self, work: MakeTables, columns: Sequence[str] | None = None
    ) -> Iterator[list[pl.DataFrame]]:
        """Yield the tables that `work` makes of each part, or of some columns of it, in order.

        Few parts at a time, since one may fill much memory.
        """
        return map_in_order(work, self.parts(columns), threads=2)


def encode_groups(table: pl.DataFrame, codes: Codes) -> pl.DataFrame:
    """Return the table with numbers in the place of groups."""
    return table.with_columns(codes.encode(table[GROUP]))


def decode_groups(table: pl.DataFrame, codes: Codes) -> pl.DataFrame:
    """Return the table with groups in the place of their numbers."""
    return table.with_columns(codes.decode(table[GROUP]))


def drop_empty_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without the columns in which none has a value; group and task stay."""
    nulls = zip(rows.columns, rows.null_count().row(0), strict=True)
    return rows.select(name for name, count in nulls if name in _STAYING or count < rows.height)


def complete_columns(
    table: pl.DataFrame, names: Sequence[str], schema: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return the columns of these names, nulls if no row has a value."""
    missing = [name for name in names if name not in table.columns]
    nulls = (pl.lit(None, dtype=schema[name]).alias(name) for name in missing)
    return table.with_columns(nulls).select(names)


class Store(GroupedRows):
    """Rows are added in order, then read part by part; `texts` are coded as groups are."""

    def __init__(
        self,
        schema: dict[str, pl.DataType],
        *,
        texts: Mapping[str, Codes] | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        super().__init__()
        self.texts = dict(texts or {})
        self._task = SAME_ID if SAME_ID in schema else TASK  # whose rows stay together
        self._schema = schema | dict.fromkeys((GROUP, *self.texts), pl.Int32())
        self._held: list[pl.DataFrame] = []
        self._held_size = 0.0
        self._held_bytes = held_bytes
        self._spilled: SpilledRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._spilled is not None:
            self._spilled.remove()

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self._schema)

    @property
    def is_held(self) -> bool:
        """Whether all rows are in memory, as one part."""
        return self._spilled is None

    def add(self, rows: pl.DataFrame) -> None:
        """Take some more rows of the compact table."""
        rows = self.encode_groups(rows).with_columns(
            codes.encode(rows[name]) for name, codes in self.texts.items()
        )
        rows = drop_empty_columns(rows).sort(GROUP, maintain_order=True)  # quick while it is small
        self.rows += rows.height
        self._held.append(rows)
        self._held_size += rows.estimated_size()
        if self._held_size > self._held_bytes:
            self._spill()

    def _spill(self) -> None:
        """Write what is held, but for tasks that may go on in the rows to come."""
        self._held_bytes = min(
            self._held_bytes, spilling.SPILL_BYTES
        )  # they no longer fit: less at a time
        self._spilled = self._spilled or SpilledRows(self._task)
        waiting: list[pl.DataFrame] = []
        while self._held:
            rows, waiting = split_finished([*waiting, *self._pop_held()], self._task)
            self._spilled.add(_merge_groups(rows))
        self._held = waiting
        self._held_size = sum(each.estimated_size() for each in waiting)

    def _pop_held(self) -> Iterator[pl.DataFrame]:
        size = 0.0
        while self._held and size < spilling.SPILL_BYTES:
            rows = self._held.pop(0)
            size += rows.estimated_size()
            yield rows

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, from memory or from its files, its rows in the order of groups."""
        names = list(columns or self._schema)
        if self._spilled is None:
            if len(self._held) != 1:
                known = pl.DataFrame(schema={name: self._schema[name] for name in (GROUP, TASK)})
                self._held = [_merge_groups([known, *self._held])]
            yield complete_columns(self._held[0], names, self._schema)
            return
        if self._held:
            self._spilled.add(_merge_groups(self._held))
            self._held = []
        for tables in self._spilled.parts([GROUP, *names]):
            yield complete_columns(_merge_groups(tables), names, self._schema)


def _merge_groups(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of tables that are in the order of groups in that order, in one piece."""
    if len(tables) == 1:
        return tables[0].with_columns(pl.col(GROUP).set_sorted())
    codes = [table[GROUP].to_numpy() for table in tables]
    last = max((int(each[-1]) for each in codes if len(each)), default=0)
    if last >= _FEW_GROUPS:
        return pl.concat(tables, how="diagonal").rechunk().sort(GROUP, maintain_order=True)
    bounds = [np.searchsorted(each, np.arange(last + 2)).tolist() for each in codes]
    pieces = [
        table[start:end]
        for code in range(last + 1)
        for table, bound in zip(tables, bounds, strict=True)
        for start, end in [(bound[code], bound[code + 1])]
        if start < end
    ]
    merged = pl.concat(pieces or tables, how="diagonal").rechunk()
    return merged.with_columns(pl.col(GROUP).set_sorted())
