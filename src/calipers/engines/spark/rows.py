"""Records to features, inside the workers, and the rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone writes it)

from calipers.engines.batches import measured_chunk
from calipers.engines.outcome import Reading, Sinks
from calipers.engines.plan import Plan, has
from calipers.engines.spark.session import declared
from calipers.records.batch import Decoded
from calipers.records.bytestream import Block
from calipers.records.columns import conformed
from calipers.records.completing import inputs_of
from calipers.records.csv_file import Csv
from calipers.records.jsonl import JsonLines, JsonLinesChunk, MadeLines, PipedJsonLines
from calipers.records.lakehouse import DeltaTable
from calipers.records.sources import BadRow, Chunk, Source, Wanted
from calipers.records.tables import Rows, SourceTable
from calipers.support.errors import UsageError

SOURCE = "_source"
BAD = {"_bad_row": pl.Int64(), "_bad_problem": pl.String(), "_bad_content": pl.String()}


def measured_rows(
    spark: SparkSession,
    source: Source,
    wanted: Wanted,
    plan: Plan,
    schema: dict[str, pl.DataType],
) -> DataFrame:
    """The source's rows with their features, worked out in the workers."""
    raw, chunk_of = _raw(spark, source, wanted)
    work = partial(_work, chunk_of=chunk_of, plan=plan, schema=schema)
    return raw.mapInArrow(work, declared(schema)).withColumn(SOURCE, F.lit(source.name))


def _raw(
    spark: SparkSession, source: Source, wanted: Wanted
) -> tuple[DataFrame, Callable[[pl.DataFrame], Chunk]]:
    """The source as Spark reads it, and how a worker makes a chunk of some of its rows."""
    if isinstance(source, PipedJsonLines):
        raise UsageError("--engine spark cannot read standard input", fix="name a file or folder")
    if isinstance(source, JsonLines | Rows):
        scalars = source.scalar_types(wanted)
        chunk_of = partial(_lines_chunk, name=source.name, wanted=wanted, scalars=scalars)
        return _lines(spark, source, wanted), chunk_of
    table = _table(spark, source)
    present = wanted.columns(set(table.columns), inputs_of(wanted))
    rows = table.select(*(f"`{name}`" for name in present)) if present else table
    parse = isinstance(source, Csv)
    return rows, partial(_rows_chunk, name=source.name, wanted=wanted, parse=parse)


def _lines(spark: SparkSession, source: JsonLines | Rows, wanted: Wanted) -> DataFrame:
    if isinstance(source, JsonLines) and not isinstance(source, MadeLines):
        return spark.read.text(source.name, lineSep="\n")
    lines = source.as_lines(wanted) if isinstance(source, MadeLines) else source.as_lines()
    return spark.createDataFrame([(line,) for line in lines], "value string")


def _table(spark: SparkSession, source: Source) -> DataFrame:
    if isinstance(source, Csv):
        return spark.read.csv(source.name, header=True, escape='"', multiLine=True)
    if isinstance(source, SourceTable) and source.name == "<table>":
        return spark.createDataFrame(source.frame().to_arrow())
    if isinstance(source, DeltaTable):
        return _delta(spark, source.name)
    return spark.read.parquet(source.name)


def _delta(spark: SparkSession, folder: str) -> DataFrame:
    try:
        return spark.read.format("delta").load(folder)
    except Exception as error:  # Java's error itself, or PySpark's, depending on the connection
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise UsageError(
            f"{folder}: this Spark session cannot read Delta tables",
            fix="start it with Delta's package (spark.jars.packages), or use --engine polars",
        ) from error


def _lines_chunk(
    rows: pl.DataFrame, *, name: str, wanted: Wanted, scalars: dict[str, pl.DataType]
) -> Chunk:
    data = rows.to_series().str.join("\n").cast(pl.Binary).item() or b""
    return JsonLinesChunk(Block(data, 0), name, wanted, scalars)


def _rows_chunk(rows: pl.DataFrame, *, name: str, wanted: Wanted, parse: bool) -> Chunk:
    return Decoded(partial(conformed, rows, wanted, name, 1, parse=parse), 0.0)


def _work(
    batches: Iterable[Any],
    chunk_of: Callable[[pl.DataFrame], Chunk],
    plan: Plan,
    schema: dict[str, pl.DataType],
) -> Iterator[Any]:
    """In a worker: Arrow batches of raw rows to Arrow batches of features and bad rows."""
    features = [name for name in schema if name not in BAD]
    for batch in batches:
        rows = pl.DataFrame(batch)
        measured = measured_chunk(chunk_of(rows), plan, features)
        bad = pl.DataFrame(
            [(row.row, row.problem, row.content) for row in measured.bad], schema=BAD, orient="row"
        )
        table = pl.concat([measured.rows, bad], how="diagonal").select(
            pl.col(name).cast(dtype) for name, dtype in schema.items()
        )
        yield from table.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def readings(
    rows: DataFrame, sources: Sequence[Source], wanted: Wanted, sinks: Sinks
) -> tuple[Reading, ...]:
    """How many rows each source gave; the first bad row stops, as on one machine."""
    counts = {
        row[SOURCE]: Reading(row["rows"], row["bad"], row["with_id"])
        for row in rows.groupBy(SOURCE)
        .agg(
            F.count_if(F.col("_bad_problem").isNull()).alias("rows"),
            F.count("_bad_problem").alias("bad"),
            F.count_if(F.col(has("id"))).alias("with_id"),
        )
        .collect()
    }
    for source in sources:
        if counts.get(source.name, Reading()).skipped:
            sinks.bad_rows(_located(rows, source, wanted))
    sinks.progress(1.0)
    return tuple(counts.get(source.name, Reading()) for source in sources)


def _located(rows: DataFrame, source: Source, wanted: Wanted) -> Sequence[BadRow]:
    """The bad rows of a source with their line numbers, which only a reader in order knows."""
    if source.path is not None or isinstance(source, Rows):
        return [bad for chunk in source.chunks(wanted) for bad in chunk.exact().bad]
    bad = rows.filter((F.col(SOURCE) == source.name) & F.col("_bad_problem").isNotNull())
    return [
        BadRow(
            source=source.name,
            row=row["_bad_row"],
            problem=row["_bad_problem"],
            content=row["_bad_content"],
        )
        for row in bad.select(*BAD).toLocalIterator()
    ]
