"""Rows in a cluster: workers measure records into cells, and each pass over the parts is a job.

A cell is a row of Spark's: some rows of one part as compressed bytes. Spark neither looks into it
nor converts it, whatever the columns and their types. Where Spark puts a row is told by the hash of
its key: a key per partition is looked for. Were the hash another one, parts would be less even, and
the results the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from calipers.engines.features import MeasuredBatch, measure_chunk
from calipers.engines.group_codes import Codes
from calipers.engines.plan import Plan, name_presence
from calipers.engines.spark.session import make_cell, pack, unpack
from calipers.engines.spark.spark_sources import MakeChunks, count_cores
from calipers.engines.spilling import SPILL_BYTES, split_by_task
from calipers.engines.store import GroupedRows, MakeTables, complete_columns, drop_empty_columns
from calipers.metrics.declare.declaration import GROUP
from calipers.records.batch import BadRow, count_bad

_PARTITIONS = "spark.sql.shuffle.partitions"
_USUAL_PARTITIONS = 200  # where a platform chooses the number itself
_PART_ROWS = 250_000  # fewer are not worth a task
_PART_BYTES = 4 << 20  # nor is less, as it is read
_SEED = 42
_BITS = 0xFFFFFFFF


def count_partitions(session: SparkSession, sizes: Sequence[int | None]) -> int:
    """Return into how many partitions the cells of these rows are shuffled.

    As many as the user lets Spark shuffle into, or fewer for little data: the sources' sizes.
    """
    configured = session.conf.get(_PARTITIONS)
    most = (
        int(configured) if configured is not None and configured.isdecimal() else _USUAL_PARTITIONS
    )
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return most
    return min(most, max(sum(known) // _PART_BYTES, 2 * count_cores(session)))


def count_parts(session: SparkSession, partitions: int, rows: int) -> int:
    """Return how many parts are worth a task each: one per core or more, never above partitions."""
    return min(max(-(-rows // _PART_ROWS), count_cores(session)), partitions)


def find_keys(partitions: int) -> tuple[int, ...]:
    """Return a number for each partition, in the partitions' order.

    >>> find_keys(4)
    (12, 6, 2, 0)
    """
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < partitions:
        keys.setdefault(hash_int(key) % partitions, key)
        key += 1
    return tuple(keys[partition] for partition in range(partitions))


def hash_int(number: int) -> int:
    """Return the hash of a 32-bit number as Spark's `hash` gives it (Murmur3)."""
    mixed = (number * 0xCC9E2D51) & _BITS
    mixed = (_rotate(mixed, 15) * 0x1B873593) & _BITS
    state = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    state ^= 4  # the length in bytes
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _BITS
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _BITS
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(number: int, by: int) -> int:
    return ((number << by) | (number >> (32 - by))) & _BITS


CELLS = "kind string, part int, place bigint, piece binary"
_CELL = {"kind": pa.string(), "part": pa.int32(), "place": pa.int64(), "piece": pa.binary()}
_TABLE = {"number": pa.int32(), "piece": pa.binary()}
_GROUP_CELL = {"code": pa.int32(), "place": pa.int64(), "piece": pa.binary()}
ROWS, SUMMARY, SAMPLES, SCHEMA, BAD = "rows", "summary", "samples", "schema", "bad"

_OF_SOURCE, _OF_PARTITION = 48, 24  # bits: cells are in order by source, partition and number


@dataclass(frozen=True, kw_only=True)
class CellWork:
    """What a worker does with the rows of a source."""

    source: int  # its number
    make_chunks: MakeChunks
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
            yield make_cell(_CELL, kind, part, next(places), piece)

    def _list_cells(
        self, batches: Iterable[Any], summary: PartitionSummary
    ) -> Iterator[tuple[str, int, bytes]]:
        schemas: list[pl.Schema] = []
        held: list[pl.DataFrame] = []
        size = 0.0
        first = self.parts[0]
        read = (*self.columns, *self.plan.having, *self.samples.values())
        for chunk in self.make_chunks(batches):
            measured = measure_chunk(chunk, self.plan, list(dict.fromkeys(read)))
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
    nulled: int = 0
    with_id: int = 0
    having: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)

    def add(self, measured: MeasuredBatch, plan: Plan) -> None:
        """Take one more batch."""
        self.rows += measured.rows.height
        skipped, nulled = count_bad(measured.bad)
        self.skipped += skipped
        self.nulled += nulled
        for name in plan.watched:
            there = int(measured.rows[name_presence(name)].sum())
            self.having[name] = self.having.get(name, 0) + there
        self.with_id = self.having.get("id", 0)
        self.groups = list(dict.fromkeys((*self.groups, *measured.rows[GROUP].unique())))


def find_source(place: int) -> int:
    """Return the number of the source whose rows are in the cell at a place."""
    return place >> _OF_SOURCE


def name_partition(place: int) -> int:
    """Return the number, in order, of the source's partition that a cell's place is in."""
    return place >> _OF_PARTITION


def pack_bad(rows: Iterable[BadRow]) -> bytes:
    """Return bad rows as a piece."""
    return json.dumps([asdict(row) for row in rows]).encode()


def unpack_bad(piece: Any) -> list[BadRow]:
    """Return the bad rows in a piece."""
    return [BadRow(**row) for row in json.loads(bytes(piece))]


Schema = Mapping[str, pl.DataType]


class ClusterRows(GroupedRows):
    """The rows of cells that Spark keeps, all runs of a task in one partition."""

    is_local = False

    def __init__(self, cells: DataFrame, schema: Schema, groups: Iterable[str], rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.codes.encode(pl.Series(sorted(groups), dtype=pl.String))
        self._schema = dict(schema)
        self._cells = cells.filter(f"kind = '{ROWS}'").select("place", "piece")

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part on the driver: for few rows, or few columns."""
        for [part] in self.map_parts(_keep, columns):
            yield part

    def map_parts(
        self, work: MakeTables, columns: Sequence[str] | None = None
    ) -> Iterator[list[pl.DataFrame]]:
        """Yield the tables that workers make of each part, in the order of the partitions."""
        load = self._load(list(columns or self._schema))
        on_part = partial(_make_tables, load=load, work=work)
        pieces = self._cells.mapInArrow(on_part, "number int, piece binary").toArrow()
        tables: list[pl.DataFrame] = []
        for number, piece in zip(*(column.to_pylist() for column in pieces.columns), strict=True):
            if number == 0 and tables:
                yield tables
                tables = []
            tables.append(unpack(piece))
        if tables:
            yield tables
        elif not self.rows:
            yield work(load([]))

    def map_groups(self, work: Callable[[str, pl.DataFrame], Any]) -> Iterator[tuple[str, Any]]:
        """Yield what a worker makes of each group's rows, gathered from all parts; it is JSON."""
        load, codes = self._load(list(self._schema)), self.codes

        def on_group(cells: pa.Table) -> pa.Table:
            pieces = pl.DataFrame(cells).sort("place")["piece"]
            rows = codes.decode_groups(pl.concat(map(unpack, pieces)).rechunk())
            group = str(rows[GROUP][0])
            return pa.table({"group": [group], "made": [json.dumps(work(group, rows))]})

        split = self._cells.mapInArrow(
            partial(_split_groups, load=load), "code int, place bigint, piece binary"
        )
        made = split.groupBy("code").applyInArrow(on_group, "group string, made string").toArrow()
        for row in made.to_pylist():
            yield row["group"], json.loads(row["made"])

    def _load(self, names: list[str]) -> Callable[[Iterable[Any]], pl.DataFrame]:
        return partial(_load_part, names=names, schema=self._schema, codes=self.codes)


def _keep(part: pl.DataFrame) -> list[pl.DataFrame]:
    return [part]


def _make_tables(
    batches: Iterable[Any], *, load: Callable[[Iterable[Any]], pl.DataFrame], work: MakeTables
) -> Iterator[Any]:
    """Yield, in a worker, the tables of a part, packed and numbered; none of an empty part."""
    part = load(batches)
    for number, table in enumerate(work(part) if part.height else ()):
        yield make_cell(_TABLE, number, pack(table))


def _split_groups(
    batches: Iterable[Any], *, load: Callable[[Iterable[Any]], pl.DataFrame]
) -> Iterator[Any]:
    """Yield, in a worker, the rows of each group of a part, packed, and its place in order."""
    from pyspark import TaskContext  # noqa: PLC0415 (it is of the worker)

    task = TaskContext.get()
    place = 0 if task is None else task.partitionId()
    for (code,), rows in load(batches).partition_by(GROUP, as_dict=True).items():
        yield make_cell(_GROUP_CELL, code, place, pack(rows))


def _load_part(
    batches: Iterable[Any], *, names: list[str], schema: Schema, codes: Codes
) -> pl.DataFrame:
    """Return, in a worker, the rows of a part in the order in which they were read."""
    wanted = list(dict.fromkeys((GROUP, *names)))
    tables = [pl.DataFrame(batch) for batch in batches]
    pieces = pl.concat(tables).sort("place")["piece"] if tables else ()
    known = pl.DataFrame(schema={GROUP: schema[GROUP]})
    rows = pl.concat([known, *(unpack(piece, wanted) for piece in pieces)], how="diagonal")
    return codes.encode_groups(complete_columns(rows, wanted, schema)).select(names).rechunk()
