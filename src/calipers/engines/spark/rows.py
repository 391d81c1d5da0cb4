"""Records to features, inside the workers, and the rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone writes it)

from calipers.engines.batches import measure_chunk
from calipers.engines.outcome import Reading, Sinks
from calipers.engines.plan import Plan, name_presence
from calipers.engines.spark.session import declare_columns
from calipers.records.batch import Decoded
from calipers.records.bytestream import Block
from calipers.records.columns import conform_columns
from calipers.records.completing import list_inputs
from calipers.records.csv_file import Csv
from calipers.records.jsonl import JsonLines, JsonLinesChunk, MadeLines, PipedJsonLines
from calipers.records.lakehouse import DeltaTable
from calipers.records.sources import BadRow, Chunk, Source, Wanted
from calipers.records.tables import Rows, SourceTable
from calipers.support.errors import UsageError

SOURCE = "_source"
BAD = {"_bad_row": pl.Int64(), "_bad_problem": pl.String(), "_bad_content": pl.String()}


def measure_rows(
    spark: SparkSession,
    source: Source,
    wanted: Wanted,
    plan: Plan,
    schema: dict[str, pl.DataType],
) -> DataFrame:
    """Return the source's rows with their features, computed in the workers."""
    raw, chunk_of = _open_raw(spark, source, wanted)
    work = partial(_measure_batches, chunk_of=chunk_of, plan=plan, schema=schema)
    return raw.mapInArrow(work, declare_columns(schema)).withColumn(SOURCE, F.lit(source.name))


def _open_raw(
    spark: SparkSession, source: Source, wanted: Wanted
) -> tuple[DataFrame, Callable[[pl.DataFrame], Chunk]]:
    """Return the source as Spark reads it, and how a worker makes a chunk of its rows."""
    if isinstance(source, PipedJsonLines):
        raise UsageError("--engine spark cannot read standard input", fix="name a file or folder")
    if isinstance(source, JsonLines | Rows):
        scalars = source.find_scalar_types(wanted)
        chunk_of = partial(_make_lines_chunk, name=source.name, wanted=wanted, scalars=scalars)
        return _read_lines(spark, source, wanted), chunk_of
    table = _read_table(spark, source)
    present = wanted.columns(set(table.columns), list_inputs(wanted))
    rows = table.select(*(f"`{name}`" for name in present)) if present else table
    parse = isinstance(source, Csv)
    return rows, partial(_make_rows_chunk, name=source.name, wanted=wanted, parse=parse)


def _read_lines(spark: SparkSession, source: JsonLines | Rows, wanted: Wanted) -> DataFrame:
    if isinstance(source, JsonLines) and not isinstance(source, MadeLines):
        return spark.read.text(source.name, lineSep="\n")
    lines = source.as_lines(wanted) if isinstance(source, MadeLines) else source.as_lines()
    return spark.createDataFrame([(line,) for line in lines], "value string")


def _read_table(spark: SparkSession, source: Source) -> DataFrame:
    if isinstance(source, Csv):
        return spark.read.csv(source.name, header=True, escape='"', multiLine=True)
    if isinstance(source, SourceTable) and source.name == "<table>":
        return spark.createDataFrame(source.frame().to_arrow())
    if isinstance(source, DeltaTable):
        return _read_delta(spark, source.name)
    return spark.read.parquet(source.name)


def _read_delta(spark: SparkSession, folder: str) -> DataFrame:
    try:
        return spark.read.format("delta").load(folder)
    except Exception as error:  # Java's error itself, or PySpark's, depending on the connection
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise UsageError(
            f"{folder}: this Spark session cannot read Delta tables",
            fix="start it with Delta's package (spark.jars.packages), or use --engine polars",
        ) from error


def _make_lines_chunk(
    rows: pl.DataFrame, *, name: str, wanted: Wanted, scalars: dict[str, pl.DataType]
) -> Chunk:
    data = rows.to_series().str.join("\n").cast(pl.Binary).item() or b""
    return JsonLinesChunk(Block(data, 0), name, wanted, scalars)


def _make_rows_chunk(rows: pl.DataFrame, *, name: str, wanted: Wanted, parse: bool) -> Chunk:
    return Decoded(partial(conform_columns, rows, wanted, name, 1, parse=parse), 0.0)


def _measure_batches(
    batches: Iterable[Any],
    chunk_of: Callable[[pl.DataFrame], Chunk],
    plan: Plan,
    schema: dict[str, pl.DataType],
) -> Iterator[Any]:
    """Yield, in a worker, Arrow batches of features and bad rows from those of raw rows."""
    features = [name for name in schema if name not in BAD]
    for batch in batches:
        rows = pl.DataFrame(batch)
        measured = measure_chunk(chunk_of(rows), plan, features)
        bad = pl.DataFrame(
            [(row.row, row.problem, row.content) for row in measured.bad], schema=BAD, orient="row"
        )
        table = pl.concat([measured.rows, bad], how="diagonal").select(
            pl.col(name).cast(dtype) for name, dtype in schema.items()
        )
        yield from table.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def count_readings(
    rows: DataFrame, sources: Sequence[Source], wanted: Wanted, sinks: Sinks
) -> tuple[Reading, ...]:
    """Return how many rows each source gave; the first bad row raises, as on one machine."""
    counts = {
        row[SOURCE]: Reading(row["rows"], row["bad"], row["with_id"])
        for row in rows.groupBy(SOURCE)
        .agg(
            F.count_if(F.col("_bad_problem").isNull()).alias("rows"),
            F.count("_bad_problem").alias("bad"),
            F.count_if(F.col(name_presence("id"))).alias("with_id"),
        )
        .collect()
    }
    for source in sources:
        if counts.get(source.name, Reading()).skipped:
            sinks.take_bad_rows(_locate_bad(rows, source, wanted))
    sinks.report_progress(1.0)
    return tuple(counts.get(source.name, Reading()) for source in sources)


def _locate_bad(rows: DataFrame, source: Source, wanted: Wanted) -> Sequence[BadRow]:
    """Return the bad rows of a source with line numbers, which only a reader in order knows."""
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
