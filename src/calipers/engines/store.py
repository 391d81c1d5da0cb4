"""Work on many items in a few threads, in the items' order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

import polars as pl

from calipers.engines import spilling
from calipers.engines.group_codes import (
    FEW_GROUPS,
    FEW_ROWS,
    Codes,
    mark_changes,
    merge_groups,
    order_tasks,
    sort_groups,
)
from calipers.engines.plan import SAME_ID
from calipers.engines.spilling import GroupFiles, SpilledRows, split_finished
from calipers.engines.totals import has_repeated
from calipers.metrics.declare.declaration import GROUP, TASK
from calipers.support.lazy_numpy import np

T = TypeVar("T")


def map_in_order(work: Callable[[Any], T], items: Iterable[Any], threads: int) -> Iterator[T]:
    """Yield `work` on each item in threads, in the items' order, only a few ahead."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


HELD_BYTES = 160 << 20
_STAYING = (GROUP, TASK, SAME_ID)

MakeTables = Callable[[pl.DataFrame], list[pl.DataFrame]]
"""Makes tables of a part, in a thread or in a worker elsewhere; always as many, or none."""


class GroupedRows(ABC):
    """Rows in parts, each of a group that a small number stands for."""

    is_local = True  # whether the rows are on this machine, and may all be looked at

    def __init__(self) -> None:
        self.codes = Codes()
        self.rows = 0
        self._are_seen_single = False

    @property
    def groups(self) -> list[str]:
        """The groups by their numbers."""
        return self.codes.texts

    @abstractmethod
    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, or some columns of it; all rows of a task are in one part.

        A part is one piece of memory: a sum over it does not show where batches began and ended.
        """

    @property
    def is_held(self) -> bool:
        """Return True if all rows are in memory, as one part."""
        return False

    @property
    def are_tasks_single(self) -> bool:
        """Return True if each task is known to have one row; False where no one has looked."""
        return self._are_seen_single

    def split_groups(self) -> Iterator[GroupedRows]:
        """Yield rows of some groups at a time, all of each; where groups are cut, all rows."""
        if self.is_held:
            [part] = self.parts()
            self._are_seen_single = not has_repeated(part[TASK])
            is_worth_it = part.height > FEW_ROWS and not self._are_seen_single
            yield HeldRows(part, self.codes) if is_worth_it else self
        else:
            yield self

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


def drop_empty_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without the columns in which none has a value; group and task stay."""
    nulls = zip(rows.columns, rows.null_count().row(0), strict=True)
    return rows.select(name for name, count in nulls if name in _STAYING or count < rows.height)


def complete_columns(
    table: pl.DataFrame, names: Sequence[str], schema: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return the columns of these names, nulls if no row has a value."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        nulls = (pl.lit(None, dtype=schema[name]).alias(name) for name in missing)
        table = table.with_columns(nulls)
    return table.select(names)


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
        self._by_group: GroupFiles | None = None  # instead, where groups are many

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for spilled in (self._spilled, self._by_group):
            if spilled is not None:
                spilled.remove()

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self._schema)

    @property
    def is_held(self) -> bool:
        """Return True if all rows are in memory, as one part."""
        return self._spilled is None and self._by_group is None

    @property
    def are_tasks_single(self) -> bool:
        """Return True if each task has one row, as is seen where parts are told apart by task."""
        self._spill_rest()
        return self._are_seen_single if self._spilled is None else self._spilled.are_tasks_single

    def add(self, rows: pl.DataFrame) -> None:
        """Take some more rows of the compact table."""
        rows = self.codes.encode_groups(rows).with_columns(
            codes.encode(rows[name]) for name, codes in self.texts.items()
        )
        rows = drop_empty_columns(rows)
        if not self._has_many_groups:
            rows = sort_groups(rows)  # quick while it is small
        self.rows += rows.height
        self._held.append(rows)
        self._held_size += rows.estimated_size()
        if self._held_size > self._held_bytes:
            self._spill()

    @property
    def _has_many_groups(self) -> bool:
        return len(self.codes) > FEW_GROUPS

    def _spill(self) -> None:
        """Write what is held, but for tasks that may go on in the rows to come."""
        # They no longer fit: less at a time.
        self._held_bytes = min(self._held_bytes, spilling.SPILL_BYTES)
        if self._spilled is None and self._has_many_groups and self._task == TASK:
            self._by_group = self._by_group or GroupFiles()
            while self._held:
                self._by_group.add(list(self._pop_held()))
            self._held_size = 0.0
            return
        self._spilled = self._spilled or SpilledRows(self._schema, self._task)
        waiting: list[pl.DataFrame] = []
        while self._held:
            rows, waiting = split_finished([*waiting, *self._pop_held()], self._task)
            self._spilled.add(rows)
        self._held = waiting
        self._held_size = sum(table.estimated_size() for table in waiting)

    def _spill_rest(self) -> None:
        """Make a part of what is held, where there are others."""
        if self._spilled is not None and self._held:
            self._spilled.add(self._held)
            self._held = []

    def _pop_held(self) -> Iterator[pl.DataFrame]:
        size = 0.0
        while self._held and size < spilling.SPILL_BYTES:
            rows = self._held.pop(0)
            size += rows.estimated_size()
            yield rows

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, from memory or from its files, its rows in the order of groups."""
        names = list(columns or self._schema)
        if self.is_held:
            if len(self._held) != 1:
                known = pl.DataFrame(schema={name: self._schema[name] for name in (GROUP, TASK)})
                self._held = [merge_groups([known, *self._held])]
            yield complete_columns(self._held[0], names, self._schema)
        elif (files := self._finish_groups()) is not None:
            for part in files.parts():
                yield complete_columns(merge_groups([part]), names, self._schema)
        elif self._spilled is not None:
            self._spill_rest()
            for tables in self._spilled.parts([GROUP, *names]):
                yield complete_columns(merge_groups(tables), names, self._schema)

    def split_groups(self) -> Iterator[GroupedRows]:
        """Yield rows of some groups at a time, all of each; where groups are cut, all rows."""
        if (files := self._finish_groups()) is None:
            yield from super().split_groups()
        else:
            for part in files.parts():
                rows = complete_columns(part, self.columns, self._schema)
                yield HeldRows(rows, self.codes)

    def _finish_groups(self) -> GroupFiles | None:
        """Return the files of all groups; where some are too large, spread the rows by task."""
        if self._by_group is None:
            return None
        if self._held:
            self._by_group.add(self._held)
            self._held = []
        if self._by_group.are_groups_small:
            return self._by_group
        self._spilled = SpilledRows(self._schema, self._task)
        for table in self._by_group.cut_parts():
            self._spilled.add([table])
        self._by_group.remove()
        self._by_group = None
        return None


class HeldRows(GroupedRows):
    """Rows in memory in the order of groups and tasks, which get numbers of their own."""

    def __init__(self, rows: pl.DataFrame, codes: Codes) -> None:
        super().__init__()
        order = order_tasks(rows)
        part = rows if order is None else rows[pl.Series(order, dtype=pl.UInt32)]
        groups = part[GROUP].to_numpy()
        starts = mark_changes(groups)
        self.codes = Codes(texts=map(codes.texts.__getitem__, groups[starts].tolist()))
        self.rows = part.height
        numbers = {GROUP: pl.Series(np.cumsum(starts) - 1, dtype=pl.Int32).set_sorted()}
        if not part[TASK].null_count():
            tasks = part[TASK].to_numpy()
            changes = starts | mark_changes(tasks)
            numbers[TASK] = pl.Series(np.cumsum(changes), dtype=pl.Int64).set_sorted()
        self._part = part.with_columns(**numbers)

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield the part, or some columns of it."""
        yield self._part if columns is None else self._part.select(columns)
