"""The compact table of a whole run, in parts that each fit in memory.

Small tables stay in memory as one part. Beyond a limit, rows go to temporary files, spread over
parts by task, so that all runs of a task are in the same part and memory stays flat. Groups are
small numbers in it: tables are grouped by them many times. Columns without a value take no room.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl

from calipers.engines.codes import Codes
from calipers.metrics.declare.declaration import GROUP, TASK

HELD_BYTES = 160 << 20
SPILL_BYTES = 96 << 20  # so much at a time once the rows no longer fit
PARTS = 48


class GroupedRows(ABC):
    """Rows in parts, each of a group that a small number stands for."""

    def __init__(self) -> None:
        self._codes = Codes()
        self.rows = 0

    @property
    def groups(self) -> list[str]:
        """The groups by their numbers."""
        return self._codes.texts

    def encode(self, group: str) -> int:
        """Return the number that stands for a group in the parts."""
        return self._codes.number(group)

    def encode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with numbers in the place of groups."""
        return table.with_columns(self._codes.encode(table[GROUP]))

    def decode_groups(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the table with groups in the place of their numbers."""
        return table.with_columns(self._codes.decode(table[GROUP]))

    @abstractmethod
    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part, or some columns of it; all rows of a task are in one part.

        A part is one piece of memory: a sum over it does not show where batches began and ended.
        """


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
        rows = rows.select(
            each.name
            for each in rows
            if each.name in (GROUP, TASK) or each.null_count() < rows.height
        )
        self.rows += rows.height
        self._held.append(rows)
        self._held_size += rows.estimated_size()
        if self._held_size > (self._held_bytes if self._folder is None else SPILL_BYTES):
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="calipers-")
        # Rows without an id are tasks of their own: any part will do.
        part = pl.coalesce(pl.col(TASK), pl.int_range(pl.len())) % PARTS
        while self._held:
            rows = pl.concat(self._pop_held(), how="diagonal")
            shares = rows.with_columns(part.alias("_part")).partition_by("_part", as_dict=True)
            for (number,), share in shares.items():
                folder = Path(self._folder.name, f"{number:02}")
                folder.mkdir(exist_ok=True)
                share.drop("_part").write_ipc(folder / f"{len(self._written):06}.arrow")
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
            yield self._add_missing(self._held[0], names)
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
        return self._add_missing(pl.concat(tables, how="diagonal"), names).rechunk()

    def _add_missing(self, table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Return the columns of these names, nulls if no row has a value."""
        missing = [name for name in names if name not in table.columns]
        nulls = (pl.lit(None, dtype=self._schema[name]).alias(name) for name in missing)
        return table.with_columns(nulls).select(names)
