"""The compact table of a whole run, in parts that each fit in memory.

Small tables stay in memory as one part. Beyond a limit, rows go to temporary files, spread over
parts by task, so that all runs of a task are in the same part and memory stays flat. Groups are
small numbers in it: tables are grouped by them many times. Columns without a value take no room.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl

from calipers.engines.codes import Codes
from calipers.engines.threads import map_in_order
from calipers.metrics.declare.declaration import GROUP, TASK

HELD_BYTES = 160 << 20
SPILL_BYTES = 96 << 20  # so much at a time once the rows no longer fit
PARTS = 48

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
    return rows.select(
        each.name for each in rows if each.name in (GROUP, TASK) or each.null_count() < rows.height
    )


def split_by_task(rows: pl.DataFrame, parts: int) -> dict[int, pl.DataFrame]:
    """Return the rows spread over parts, by number: all rows of a task in the same one.

    Rows without an id are tasks of their own: any part will do.
    """
    part = pl.coalesce(pl.col(TASK), pl.int_range(pl.len())) % parts
    shares = rows.with_columns(part.alias("_part")).partition_by(
        "_part", as_dict=True, include_key=False
    )
    return {int(number): share for (number,), share in shares.items()}


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
        self._schema = schema | dict.fromkeys((GROUP, *self.texts), pl.Int32())
        self._held: list[pl.DataFrame] = []
        self._held_size = 0.0
        self._held_bytes = held_bytes
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._written: list[list[str]] = []  # the columns of the files with each number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self._schema)

    @property
    def is_held(self) -> bool:
        """Whether all rows are in memory, as one part."""
        return self._folder is None

    def add(self, rows: pl.DataFrame) -> None:
        """Take some more rows of the compact table."""
        rows = self.encode_groups(rows).with_columns(
            codes.encode(rows[name]) for name, codes in self.texts.items()
        )
        rows = drop_empty_columns(rows)
        self.rows += rows.height
        self._held.append(rows)
        self._held_size += rows.estimated_size()
        if self._held_size > (self._held_bytes if self._folder is None else SPILL_BYTES):
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        while self._held:
            rows = pl.concat(self._pop_held(), how="diagonal")
            for number, share in split_by_task(rows, PARTS).items():
                folder = Path(self._folder.name, f"{number:02}")
                folder.mkdir(exist_ok=True)
                share.write_ipc(folder / f"{len(self._written):06}.arrow")
            self._written.append(rows.columns)
        self._held_size = 0.0

    def _pop_held(self) -> Iterator[pl.DataFrame]:
        size = 0.0
        while self._held and size < SPILL_BYTES:
            rows = self._held.pop(0)
            size += rows.estimated_size()
            yield rows

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, from memory or from its files."""
        names = list(columns or self._schema)
        if self._folder is None:
            if len(self._held) != 1:
                known = pl.DataFrame(schema={name: self._schema[name] for name in (GROUP, TASK)})
                self._held = [pl.concat([known, *self._held], how="diagonal").rechunk()]
            yield complete_columns(self._held[0], names, self._schema)
            return
        if self._held:
            self._spill()
        for folder in sorted(Path(self._folder.name).iterdir()):
            yield self._concat(
                (self._read(file, names) for file in sorted(folder.iterdir())), names
            )

    def _read(self, file: Path, names: Sequence[str]) -> pl.DataFrame:
        known = self._written[int(file.stem)]
        return pl.read_ipc(file, columns=[name for name in known if name in (GROUP, *names)])

    def _concat(self, tables: Iterable[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
        """Return all rows with all these columns, each in one piece of memory."""
        whole = pl.concat(tables, how="diagonal")
        return complete_columns(whole, names, self._schema).rechunk()
