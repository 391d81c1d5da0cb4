"""Rows in a cluster: each part is a partition of Spark's, and each pass over them a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from calipers.engines.codes import Codes
from calipers.engines.spark.cells import ROWS
from calipers.engines.store import GroupedRows, MakeTables, complete_columns
from calipers.metrics.declare.declaration import GROUP
from calipers.records.spark.session import pack, to_batches, unpack

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
        found = self._cells.mapInArrow(on_part, "number int, piece binary").toArrow()
        tables: list[pl.DataFrame] = []
        for number, piece in zip(*(column.to_pylist() for column in found.columns), strict=True):
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
        found = split.groupBy("code").applyInArrow(on_group, "group string, made string").toArrow()
        for row in found.to_pylist():
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
        schema = {"number": pl.Int32, "piece": pl.Binary}
        yield from to_batches(pl.DataFrame([(number, pack(table))], schema=schema, orient="row"))


def _split_groups(
    batches: Iterable[Any], *, load: Callable[[Iterable[Any]], pl.DataFrame]
) -> Iterator[Any]:
    """Yield, in a worker, the rows of each group of a part, packed, and its place in order."""
    from pyspark import TaskContext  # noqa: PLC0415 (it is of the worker)

    task = TaskContext.get()
    place = 0 if task is None else task.partitionId()
    for (code,), rows in load(batches).partition_by(GROUP, as_dict=True).items():
        schema = {"code": pl.Int32, "place": pl.Int64, "piece": pl.Binary}
        cell = [(code, place, pack(rows))]
        yield from to_batches(pl.DataFrame(cell, schema=schema, orient="row"))


def _load_part(
    batches: Iterable[Any], *, names: list[str], schema: Schema, codes: Codes
) -> pl.DataFrame:
    """Return, in a worker, the rows of a part in the order in which they were read."""
    wanted = list(dict.fromkeys((GROUP, *names)))
    found = [pl.DataFrame(batch) for batch in batches]
    pieces = pl.concat(found).sort("place")["piece"] if found else ()
    known = pl.DataFrame(schema={GROUP: schema[GROUP]})
    rows = pl.concat([known, *(unpack(piece, wanted) for piece in pieces)], how="diagonal")
    return codes.encode_groups(complete_columns(rows, wanted, schema)).select(names).rechunk()
