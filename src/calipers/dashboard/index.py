"""The index of one source: its records and their measured values, in columns on disk.

A part of the source becomes two Arrow files: `records-N.arrow` with every field, and
`values-N.arrow` with the narrow columns that are sorted and filtered by. Polars maps the files and
reads only the columns and rows that are asked for; columns in use stay in memory.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import polars as pl

from calipers.dashboard.caches import META
from calipers.engines.group_codes import number_values
from calipers.records.fields import FIELDS

HELD_BYTES = 1 << 30  # of columns in memory; those not used for the longest time go first
_CELL_BYTES = 12  # of a column in memory, about
LONG_TEXTS = tuple(field.name for field in FIELDS.values() if field.is_long)
SEARCHED = tuple(field.name for field in FIELDS.values() if field.is_searched)
_SCATTERED = 40  # rows in as many places
PartKind = Literal["records", "values"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is known of an index without reading its rows."""

    parts: tuple[int, ...]  # how many rows each has
    fields: Mapping[str, pl.DataType]  # that any record has
    values: Mapping[str, pl.DataType]  # that any record has
    skipped: int = 0  # rows that could not be read
    problems: tuple[str, ...] = ()  # of the first of them
    notices: tuple[str, ...] = ()
    systems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of these fields, if few

    def to_json(self) -> str:
        """Return the summary as stored."""
        types = {
            part: {name: str(dtype) for name, dtype in getattr(self, part).items()}
            for part in ("fields", "values")
        }
        return json.dumps({**{name: getattr(self, name) for name in self.__slots__}, **types})

    @staticmethod
    def read(text: str) -> Summary:
        """Return the summary from its stored form."""
        found = json.loads(text)
        for part in ("fields", "values"):
            found[part] = {name: _TYPES[dtype] for name, dtype in found[part].items()}
        for name in ("parts", "problems", "notices"):
            found[name] = tuple(found[name])
        systems = {name: tuple(values) for name, values in found["systems"].items()}
        return Summary(**{**found, "systems": systems})


_STORED = (pl.String(), pl.Boolean(), pl.Float64(), pl.Int64(), pl.Int32(), pl.Int8())
_TYPES: dict[str, pl.DataType] = {str(each): each for each in _STORED}


class Index:
    """Rows by their number, columns by their name."""

    def __init__(self, folder: Path, summary: Summary) -> None:
        self.folder = folder
        self.summary = summary
        self._ends = list(accumulate(summary.parts))
        self._held: OrderedDict[str, pl.Series] = OrderedDict()
        self._lock = Lock()
        self._distinct: dict[str, int] = {}
        self._numbers: dict[str, tuple[pl.Series, pl.Series]] = {}

    @staticmethod
    def open(folder: Path) -> Index:
        """Return the finished index in a folder."""
        return Index(folder, Summary.read((folder / META).read_text(encoding="utf-8")))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self._ends[-1] if self._ends else 0

    @cached_property
    def columns(self) -> dict[str, pl.DataType]:
        """What can be filtered and sorted by; measured values go before fields of their names."""
        fields = {n: t for n, t in self.summary.fields.items() if n not in LONG_TEXTS}
        return {**fields, **self.summary.values}

    def read_column(self, name: str) -> pl.Series:
        """Return a whole column, kept in memory while it fits."""
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        return self._load([name])[name]

    def hold(self, names: Sequence[str]) -> None:
        """Read several columns at once, which is faster than one by one."""
        missing = [name for name in names if name in self.columns and name not in self._held]
        for where in (self.summary.values, self.summary.fields):
            some = [name for name in missing if name in where]
            missing = [name for name in missing if name not in some]
            if some:
                self._load(some)

    def _load(self, names: list[str]) -> dict[str, pl.Series]:
        """Return columns of one kind of file, from all parts, each in one piece."""
        kind: PartKind = "values" if names[0] in self.summary.values else "records"
        every = range(len(self.summary.parts))
        parts = pl.collect_all([self.scan(kind, part).select(names) for part in every])
        empty = pl.DataFrame(schema=dict.fromkeys(names, pl.Null()))
        whole = pl.concat([empty, *parts], how="vertical_relaxed").rechunk()
        found = {name: whole[name] for name in names}
        with self._lock:
            self._held |= found
            held = sum(column.estimated_size() for column in self._held.values())
            while len(self._held) > len(found) and held > HELD_BYTES:
                held -= self._held.popitem(last=False)[1].estimated_size()
        return found

    def preload(self) -> None:
        """Read the narrow columns ahead of use, unless they are too large."""
        for names in (list(self.summary.values), list(self.columns)):
            if self.rows * len(names) * _CELL_BYTES > HELD_BYTES // 2:
                return
            with suppress(OSError, pl.exceptions.PolarsError):  # a newer index may be in its place
                self.hold(names)

    def read_cells(self, names: Sequence[str], rows: Sequence[int]) -> dict[str, list[Any]]:
        """Return some columns of some rows; for consecutive rows, without reading whole columns."""
        known = [name for name in names if name in self.columns]
        near = [name for name in known if name in self.summary.values and name not in self._held]
        found: dict[str, list[Any]] = {name: [None] * len(rows) for name in names}
        if near and len(_find_runs(rows)) == 1:
            found |= self._read_rows(rows, near, "values").to_dict(as_series=False)
            known = [name for name in known if name not in near]
        self.hold(known)
        return found | {name: self.read_column(name).gather(list(rows)).to_list() for name in known}

    def count_distinct(self, name: str) -> int:
        """Return how many values a column has, null included; counted once."""
        if name not in self._distinct:
            self._distinct[name] = self.read_column(name).n_unique()
        return self._distinct[name]

    def number(self, name: str) -> tuple[pl.Series, pl.Series]:
        """Return a number per row for its value, and the first row of each; numbered once."""
        if name not in self._numbers:
            self._numbers[name] = number_values(self.read_column(name))
        return self._numbers[name]

    def order(self, name: str) -> pl.Series:
        """Return the rows from the smallest value of a column to the largest, nulls last."""
        path = self.folder / name_order(name)
        if path.exists():
            return pl.read_ipc(path).to_series()
        return sort_rows(self.read_column(name))

    def scan(self, kind: PartKind, part: int) -> pl.LazyFrame:
        """Return the records of a part, or its measured values."""
        return pl.scan_ipc(self.folder / name_part(kind, part))

    def list_part_starts(self) -> list[int]:
        """Return the number of each part's first row."""
        return [0, *self._ends][:-1]

    def read_records(
        self, rows: Sequence[int], fields: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Return some records, in the order asked for, or some of their fields."""
        names = [name for name in (fields or self.summary.fields) if name in self.summary.fields]
        return self._read_rows(rows, names, "records")

    def read_values(self, rows: Sequence[int]) -> pl.DataFrame:
        """Return the measured values of some records."""
        return self._read_rows(rows, list(self.summary.values), "values")

    def read_one(self, row: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a record's fields that have a value, and its measured values."""
        record, values = (
            {name: value for name, value in found.row(0, named=True).items() if value is not None}
            for found in (self.read_records([row]), self.read_values([row]))
        )
        return record, values

    def _read_rows(self, rows: Sequence[int], names: list[str], kind: PartKind) -> pl.DataFrame:
        if not rows or not names:
            return pl.DataFrame(height=len(rows))
        runs = _find_runs(rows)
        if len(runs) > _SCATTERED:
            return self._gather_rows(rows, names, kind)
        wanted = []
        for first, count in runs:
            at = first
            while at < first + count:
                part = bisect_right(self._ends, at)
                start = self._ends[part - 1] if part else 0
                some = min(first + count, self._ends[part]) - at
                wanted.append(self.scan(kind, part).slice(at - start, some).select(names))
                at += some
        return pl.concat(pl.collect_all(wanted), how="vertical_relaxed")

    def _gather_rows(self, rows: Sequence[int], names: list[str], kind: PartKind) -> pl.DataFrame:
        """Return rows that lie far apart: each part is looked into once, not once a row."""
        by_part: dict[int, list[int]] = {}
        for at, row in enumerate(rows):
            by_part.setdefault(bisect_right(self._ends, row), []).append(at)
        starts = self.list_part_starts()
        wanted = [
            self.scan(kind, part).select(
                pl.col(names).gather([rows[at] - starts[part] for at in places])
            )
            for part, places in by_part.items()
        ]
        whole = pl.concat(pl.collect_all(wanted), how="vertical_relaxed")
        order = pl.Series([at for places in by_part.values() for at in places], dtype=pl.UInt32)
        return whole[order.arg_sort()]


def name_part(kind: PartKind, part: int) -> str:
    """Return the file of a part's records, or of its measured values."""
    return f"{kind}-{part:06}.arrow"


def name_order(column: str) -> str:
    """Return the file of the rows in the order of a column."""
    return f"order-{column.encode().hex()}.arrow"


def sort_rows(column: pl.Series) -> pl.Series:
    """Return the rows in the order of a column's values; equal ones stay in their order."""
    order = pl.arg_sort_by("value", nulls_last=True, maintain_order=True)
    return column.to_frame("value").select(order.cast(pl.UInt32)).to_series()


def _find_runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return consecutive rows as their first and their number."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and row == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((row, 1))
    return found
