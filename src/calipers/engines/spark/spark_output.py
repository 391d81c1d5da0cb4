"""What Spark writes: new tables in the session's catalog, and a row per record from the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame

from calipers.engines.features import number_rows
from calipers.engines.outcome import Sinks
from calipers.engines.spark.cluster_rows import SAMPLES, PartitionSummary, name_partition
from calipers.engines.spark.session import (
    SPARK_ERRORS,
    find_last_line,
    start_session,
    to_batches,
    unpack,
)
from calipers.support.errors import DataError, UsageError


def refuse_table(name: str, option: str) -> None:
    """Check that a table can be created, before any work is done.

    Raises:
        UsageError: There is such a table already, or its schema does not exist.
    """
    catalog = start_session().catalog
    schema, _, _ = name.rpartition(".")
    try:
        has_schema = not schema or "`" in schema or catalog.databaseExists(schema)
        taken = has_schema and catalog.tableExists(name)
    except SPARK_ERRORS as error:
        raise UsageError(
            f"{option} table:{name}: {find_last_line(error)}",
            fix="name it as the session knows it: table:CATALOG.SCHEMA.NAME",
        ) from error
    if not has_schema:
        raise UsageError(
            f"{option} table:{name}: there is no schema {schema}",
            fix=f"create it first: CREATE SCHEMA {schema}",
        )
    if taken:
        raise UsageError(
            f"{option} table:{name}: the table exists, and is not overwritten",
            fix=f"name another one, or drop it first: DROP TABLE {name}",
        )


def save_rows(rows: DataFrame, name: str, *, expected: int, option: str) -> None:
    """Create a table of rows, in the format that is the session's default.

    Raises:
        DataError: Spark cannot write it, or it does not hold as many rows as expected.
    """
    try:
        rows.write.saveAsTable(name)
        saved = rows.sparkSession.table(name).count()
    except SPARK_ERRORS as error:
        raise DataError(
            f"{option} table:{name}: Spark cannot write it: {find_last_line(error)}",
            fix="check that the session may create tables there",
        ) from error
    if saved != expected:
        raise DataError(
            f"{option} table:{name}: it holds {saved:,} rows, expected {expected:,}",
            fix=f"drop it and run again: DROP TABLE {name}; "
            "if it stays so, the records change while they are read",
        )


def save_parquet(path: Path, name: str, *, option: str) -> None:
    """Create a table of the rows of a Parquet file on this machine."""
    rows = pl.read_parquet(path)
    save_rows(make_spark_frame(rows), name, expected=rows.height, option=option)


def make_spark_frame(rows: pl.DataFrame) -> DataFrame:
    """Return rows as a data frame of the session's, in types that Spark has."""
    conformed = rows.cast(conform_schema(rows.schema))
    table = conformed.to_arrow(compat_level=pl.CompatLevel.oldest())
    return start_session().createDataFrame(table)


def conform_schema(schema: pl.Schema) -> pl.Schema:
    """Return the schema in types that Spark has: no unsigned numbers, no column without a type."""
    return pl.Schema({name: _conform(dtype) for name, dtype in schema.items()})


def _conform(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List):
        return pl.List(_conform(dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _conform(field.dtype) for field in dtype.fields})  # type: ignore[arg-type]
    if dtype.is_unsigned_integer():
        return pl.Int64()
    return pl.String() if dtype in (pl.Null, pl.Categorical, pl.Enum) else dtype


_SAMPLES_OPTION = "--per-sample"


def stream_samples(measured: DataFrame, sinks: Sinks, expected: int) -> None:
    """Give per-sample values to the sinks, part by part.

    Raises:
        DataError: Fewer or more rows arrived than were measured.
    """
    written = 0
    pieces = measured.filter(f"kind = '{SAMPLES}'").select("piece")
    for row in pieces.toLocalIterator(prefetchPartitions=True):
        frame = unpack(row["piece"])
        written += frame.height
        sinks.take_samples(number_rows(frame, written))
    if written != expected:
        raise DataError(
            f"{_SAMPLES_OPTION}: {written:,} rows arrived from the cluster, "
            f"{expected:,} were measured",
            fix="run it again; if it stays so, the file changes while it is read",
        )


def save_samples(
    measured: DataFrame, summaries: Sequence[PartitionSummary], schemas: Iterable[Any], name: str
) -> None:
    """Save per-sample values, by the workers, as a new table; `schemas` are tables without rows.

    Raises:
        DataError: Spark cannot write it, or another number of rows than was measured.
    """
    empty = [unpack(piece) for piece in schemas]
    if not empty:  # no record, which the score says
        return
    common = conform_schema(pl.concat(empty, how="vertical_relaxed").schema)
    ends = accumulate(summary.rows for summary in summaries)
    before = {
        summary.partition: end - summary.rows for summary, end in zip(summaries, ends, strict=True)
    }
    cells = measured.filter(f"kind = '{SAMPLES}'").select("place", "piece")
    rows = cells.mapInArrow(_Unpack(common, before), make_spark_frame(common.to_frame()).schema)
    save_rows(
        rows, name, expected=sum(summary.rows for summary in summaries), option=_SAMPLES_OPTION
    )


@dataclass(frozen=True)
class _Unpack:
    """Turns cells into rows, in a worker; rows without an id are numbered over all partitions."""

    schema: pl.Schema
    before: Mapping[int, int]  # how many rows precede those of each partition

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        reached = dict(self.before)
        for batch in batches:
            for place, piece in pl.DataFrame(batch).iter_rows():
                rows, partition = unpack(piece), name_partition(place)
                reached[partition] += rows.height
                numbered = number_rows(rows, reached[partition])
                yield from to_batches(numbered.cast(self.schema))
