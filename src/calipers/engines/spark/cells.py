"""What workers do with records: measure them, and pack the narrow columns into cells.

A cell is a row of Spark's: some rows of one part as compressed bytes. Spark neither looks into it
nor converts it, whatever the columns and their types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from itertools import count
from typing import Any

import polars as pl
from pyspark import TaskContext

from calipers.engines.measuring import MeasuredBatch, measure_chunk
from calipers.engines.plan import Plan, name_presence
from calipers.engines.spilling import SPILL_BYTES, split_by_task
from calipers.engines.store import drop_empty_columns
from calipers.metrics.declare.declaration import GROUP
from calipers.records.sources import BadRow
from calipers.records.spark.session import pack, to_batches
from calipers.records.spark.table import MakeChunk
from calipers.records.tables import CHUNK_ROWS
from calipers.support.quick_dataclasses import dataclass

CELLS = "kind string, part int, place bigint, piece binary"
ROWS, SUMMARY, SAMPLES, SCHEMA, BAD = "rows", "summary", "samples", "schema", "bad"

_OF_SOURCE, _OF_PARTITION = 48, 24  # bits: cells are in order by source, partition and number


@dataclass(frozen=True, kw_only=True)
class CellWork:
    """What a worker does with the rows of a source."""

    source: int  # its number
    make_chunk: MakeChunk
    plan: Plan
    columns: tuple[str, ...]  # of the compact table
    samples: Mapping[str, str]  # what is kept of each row beside it
    parts: tuple[int, ...]  # keys, one per part, which Spark puts into different partitions

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield cells from Arrow batches of raw rows."""
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        first = (self.source << _OF_SOURCE) | (partition << _OF_PARTITION)
        places = count(first)
        summary = PartitionSummary(source=self.source, partition=name_partition(first))
        for kind, part, piece in self._list_cells(batches, summary):
            cell = {"kind": kind, "part": part, "place": next(places), "piece": piece}
            schema = {"kind": pl.String, "part": pl.Int32, "place": pl.Int64, "piece": pl.Binary}
            yield from to_batches(pl.DataFrame([cell], schema=schema))

    def _list_cells(
        self, batches: Iterable[Any], summary: PartitionSummary
    ) -> Iterator[tuple[str, int, bytes]]:
        schemas: list[pl.Schema] = []
        held: list[pl.DataFrame] = []
        size = 0.0
        first = self.parts[0]
        read = (*self.columns, *self.plan.having, *self.samples.values())
        for raw in gather(batches):
            measured = measure_chunk(self.make_chunk(raw), self.plan, list(dict.fromkeys(read)))
            summary.add(measured, self.plan)
            if self.samples:
                kept = (pl.col(own).alias(name) for name, own in self.samples.items())
                rows = measured.rows.select(kept)
                yield SAMPLES, first, pack(rows)
                if rows.schema not in schemas:
                    schemas.append(rows.schema)
                    yield SCHEMA, first, pack(rows.clear())
            if measured.bad:
                yield BAD, first, pack_bad(measured.bad)
            held.append(measured.rows.select(self.columns))
            size += held[-1].estimated_size()
            if size > SPILL_BYTES:
                yield from self._spread(held)
                held, size = [], 0.0
        yield from self._spread(held)
        yield SUMMARY, first, json.dumps(summary.__dict__).encode()

    def _spread(self, held: list[pl.DataFrame]) -> Iterator[tuple[str, int, bytes]]:
        rows = drop_empty_columns(pl.concat(held)) if held else pl.DataFrame()
        for number, share in split_by_task(rows, len(self.parts)).items() if held else ():
            yield ROWS, self.parts[number], pack(share)


@dataclass
class PartitionSummary:
    """What a worker read of a source."""

    source: int
    partition: int  # see `name_partition`
    rows: int = 0
    skipped: int = 0
    with_id: int = 0
    having: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)

    def add(self, measured: MeasuredBatch, plan: Plan) -> None:
        """Take one more batch."""
        self.rows += measured.rows.height
        self.skipped += len(measured.bad)
        for name in plan.watched:
            there = int(measured.rows[name_presence(name)].sum())
            self.having[name] = self.having.get(name, 0) + there
        self.with_id = self.having.get("id", 0)
        self.groups = list(dict.fromkeys((*self.groups, *measured.rows[GROUP].unique())))


def name_partition(place: int) -> int:
    """Return the number, in order, of the source's partition that a cell's place is in."""
    return place >> _OF_PARTITION


def gather(batches: Iterable[Any]) -> Iterator[pl.DataFrame]:
    """Yield Arrow batches as frames, small ones put together."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        held.append(pl.DataFrame(batch))
        if sum(each.height for each in held) >= CHUNK_ROWS:
            yield pl.concat(held)
            held = []
    if held:
        yield pl.concat(held)


def pack_bad(rows: Iterable[BadRow]) -> bytes:
    """Return bad rows as a piece."""
    return json.dumps([asdict(row) for row in rows]).encode()


def unpack_bad(piece: Any) -> list[BadRow]:
    """Return the bad rows in a piece."""
    return [BadRow(**row) for row in json.loads(bytes(piece))]
