"""The engine for a cluster: the same features inside the workers, the same aggregates natively.

Workers run the very code of the Polars engine on Arrow batches, so that no regular expression or
number can be read differently. Totals are plain Spark group-bys through Narwhals: no group has to
fit on one worker, and only totals reach the driver.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from calipers.engines.batches import measured_chunk, numbered
from calipers.engines.outcome import ROWS, TEXT, Outcome, Reading, Sinks, TextTally
from calipers.engines.per_task import attempts, flakiest, flaky_counts, task_totals, with_answers
from calipers.engines.plan import Plan, has
from calipers.engines.ranks import select_ranks
from calipers.engines.spreads import add_spreads, beside_rows, beyond_rows, effects, per_cluster
from calipers.engines.totals import (
    GroupTotals,
    add_kept,
    add_task_spreads,
    add_totals,
    clustered_positions,
    described_positions,
    housekeeping,
    keyed,
    merged,
    pooled,
    rank_positions,
    task_steps,
    value_counts,
)
from calipers.errors import DataError, MissingExtraError, UsageError
from calipers.metrics.declaration import (
    CLUSTER,
    GROUP,
    TASK,
    Aggregate,
    Feature,
    Frame,
    Step,
    TaskValues,
)
from calipers.sources import BadRow, Chunk, Source, Wanted
from calipers.sources.batch import Decoded
from calipers.sources.bytestream import HeldBlock
from calipers.sources.columns import conformed
from calipers.sources.jsonl import JsonLines, JsonLinesChunk, PipedJsonLines
from calipers.sources.logs import Log
from calipers.sources.tables import Csv, Rows, Table

try:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812 (as everyone writes it)
except ImportError as error:
    raise MissingExtraError("--engine spark needs PySpark", extra="spark") from error

SOURCE = "_source"
BAD = {"_bad_row": pl.Int64(), "_bad_problem": pl.String(), "_bad_content": pl.String()}

_TEXTS = 100_000  # different ones that reach the driver
_QUIET = Path(__file__).with_name("log4j2.properties")

_SPARK_TYPES = {
    pl.String: "string",
    pl.Int64: "bigint",
    pl.Float64: "double",
    pl.Boolean: "boolean",
}


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Measure every source in the workers and add up in the cluster."""
    spark = _session()
    plan = replace(plan, sort_keys=True)
    kept = plan.sample_columns if sinks.wants_samples else {}
    types = {name: _type_of(name, plan) for name in kept.values()}
    if plan.tallied is not None:
        types[plan.tallied.name] = plan.tallied.dtype
    schema = {**plan.schema, **types, **BAD}
    try:
        tables = [_measured(spark, source, wanted, plan, schema) for source in sources]
        rows = tables[0]
        for other in tables[1:]:
            rows = rows.unionAll(other)
        rows = rows.persist()
        try:
            readings = _readings(rows, sources, wanted, sinks)
            good = rows.filter(F.col("_bad_problem").isNull())
            if kept:
                _write_samples(good, kept, sinks)
            tally = None if plan.tallied is None else _tally(good, plan.tallied)
            having = _having(good, plan)
            plan = plan.present([name for name, count in having.items() if count])
            groups = _totals(spark, good, plan)
            outcome = Outcome(groups, readings, having, tally=tally)
            return _per_task(good, plan, outcome, sinks) if plan.per_task else outcome
        finally:
            rows.unpersist()
    except PySparkException as error:
        raise DataError(
            f"Spark gave up: {_last_line(error)}",
            fix="try --engine polars on a part of the data to see the row in question",
        ) from error


def _session() -> SparkSession:
    """The session at hand, or one on this machine that keeps quiet."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    }
    builder = SparkSession.builder.appName("calipers")
    if "SPARK_REMOTE" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        for name, value in settings.items():
            builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise UsageError(
            f"Spark does not start: {_last_line(error)}",
            fix="install Java 17 and let JAVA_HOME point to it, or use --engine polars",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("calipers.")]
    return (named or lines or [type(error).__name__])[-1][:300]


def _type_of(name: str, plan: Plan) -> pl.DataType:
    """The type of a per-sample column; what is no feature is a text."""
    return plan.schema.get(name, pl.String())


def _measured(
    spark: SparkSession,
    source: Source,
    wanted: Wanted,
    plan: Plan,
    schema: dict[str, pl.DataType],
) -> DataFrame:
    raw, chunk_of = _raw(spark, source, wanted)
    work = partial(_work, chunk_of=chunk_of, plan=plan, schema=schema)
    declared = ", ".join(f"`{name}` {_SPARK_TYPES[type(dtype)]}" for name, dtype in schema.items())
    return raw.mapInArrow(work, declared).withColumn(SOURCE, F.lit(source.name))


def _raw(
    spark: SparkSession, source: Source, wanted: Wanted
) -> tuple[DataFrame, Callable[[pl.DataFrame], Chunk]]:
    """The source as Spark reads it, and how a worker makes a chunk of some of its rows."""
    if isinstance(source, PipedJsonLines):
        raise UsageError("--engine spark cannot read standard input", fix="name a file or folder")
    if isinstance(source, JsonLines) and not isinstance(source, Log):
        lines = spark.read.text(source.name, lineSep="\n")
        chunk_of = partial(
            _lines_chunk, name=source.name, wanted=wanted, scalars=source.scalar_types(wanted)
        )
        return lines, chunk_of
    if isinstance(source, Rows | Log):
        texts = source.as_lines(wanted) if isinstance(source, Log) else source.as_lines()
        lines = spark.createDataFrame([(line,) for line in texts], "value string")
        chunk_of = partial(
            _lines_chunk, name=source.name, wanted=wanted, scalars=source.scalar_types(wanted)
        )
        return lines, chunk_of
    table = _table(spark, source)
    names = {wanted.theirs(name) for name in wanted.fields}
    present = [name for name in table.columns if name in names]
    rows = table.select(*(f"`{name}`" for name in present)) if present else table
    parse = isinstance(source, Csv)
    return rows, partial(_rows_chunk, name=source.name, wanted=wanted, parse=parse)


def _table(spark: SparkSession, source: Source) -> DataFrame:
    if isinstance(source, Csv):
        return spark.read.csv(source.name, header=True, escape='"', multiLine=True)
    if isinstance(source, Table) and source.name == "<table>":
        return spark.createDataFrame(source.frame().to_arrow())
    return spark.read.parquet(source.name)


def _lines_chunk(
    rows: pl.DataFrame, *, name: str, wanted: Wanted, scalars: dict[str, pl.DataType]
) -> Chunk:
    data = rows.to_series().str.join("\n").cast(pl.Binary).item() or b""
    return JsonLinesChunk(HeldBlock(data, 0), name, wanted, scalars)


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


def _readings(
    rows: DataFrame, sources: Sequence[Source], wanted: Wanted, sinks: Sinks
) -> tuple[Reading, ...]:
    """How many rows each source gave; the first bad row stops, as on one machine."""
    counts = {
        row[SOURCE]: Reading(row["rows"], row["bad"])
        for row in rows.groupBy(SOURCE)
        .agg(
            F.count_if(F.col("_bad_problem").isNull()).alias("rows"),
            F.count("_bad_problem").alias("bad"),
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


def _write_samples(rows: DataFrame, kept: dict[str, str], sinks: Sinks) -> None:
    """Per-sample values, part by part."""
    columns = [F.col(own).alias(f"_out_{sample}") for sample, own in kept.items()]
    written = 0
    for frame in _part_by_part(rows.select(*columns)):
        written += frame.height
        sinks.samples(numbered(frame.rename(lambda n: n.removeprefix("_out_")), written))


def _part_by_part(rows: DataFrame) -> Iterator[pl.DataFrame]:
    """A large table on the driver, by way of a folder that driver and workers share."""
    with tempfile.TemporaryDirectory(prefix="calipers-") as name:
        folder = Path(name, "parts")
        rows.write.parquet(folder.as_uri())
        yield from map(pl.read_parquet, sorted(folder.glob("part-*.parquet")))


def _per_task(good: DataFrame, plan: Plan, outcome: Outcome, sinks: Sinks) -> Outcome:
    """Count the flaky tasks and find some, in the cluster; a row per task goes to its file."""
    rows = nw.from_native(good)
    tasks = task_totals(rows, plan)
    if sinks.wants_tasks:
        for part in _part_by_part(with_answers(tasks, rows, plan).to_native()):
            sinks.tasks(part)
    add_totals(outcome.groups, _collected(flaky_counts(tasks)))
    tried = None if (costs := attempts(tasks)) is None else _collected(costs)
    return replace(outcome, flakiest=_collected(flakiest(tasks)), attempts=tried)


def _having(good: DataFrame, plan: Plan) -> dict[str, int]:
    """How many rows have each watched field."""
    counts = (nw.col(has(name)).cast(nw.Int64).sum().alias(name) for name in plan.watched)
    [found] = _collected(nw.from_native(good).select(*counts)).rows(named=True)
    return {name: count or 0 for name, count in found.items()}


def _tally(good: DataFrame, feature: Feature) -> pl.DataFrame:
    """How many rows of each group have each text: the most frequent, and the rest as one."""
    found = TextTally()
    text = F.col(feature.name).alias(TEXT)
    counted = good.filter(text.isNotNull()).groupBy(GROUP, text).agg(F.count("*").alias(ROWS))
    if rows := [row.asDict() for row in counted.orderBy(F.desc(ROWS)).limit(_TEXTS).collect()]:
        found.add(pl.DataFrame(rows))
    return found.table


def _totals(spark: SparkSession, good: DataFrame, plan: Plan) -> GroupTotals:
    groups: GroupTotals = {}
    rows = nw.from_native(good)
    keyed_tables: dict[Aggregate, Frame] = {}
    for aggregate in merged((*housekeeping(plan), *plan.aggregates, *plan.modes), plan):
        table = keyed(rows, aggregate)
        if not aggregate.keys:
            add_totals(groups, pooled([_collected(table)], plan))
            continue
        keyed_tables[aggregate] = table
        if aggregate.kept_as is not None:
            add_kept(groups, _collected(table), aggregate)
        of_tasks = partial(_of_tasks, rows=rows, plan=plan)
        steps: list[Step] = [*aggregate.finish]
        steps += [partial(of_tasks, values=values) for values in aggregate.tasks]
        for step in steps:
            add_totals(groups, _collected(step(table)))
    for rank in plan.ranks:
        _add_ranks(groups, rank_positions(groups, rank, plan.confidence), rank.feature, rows, spark)
    for feature in plan.described:
        _add_ranks(groups, described_positions(groups, feature), feature, rows, spark)
    add_task_spreads(groups, plan)
    if plan.influences:
        add_totals(groups, _of_clusters(spark, rows, plan, groups, keyed_tables))
    add_spreads(groups, plan.influences)
    for rank in plan.ranks:
        _add_ranks(
            groups, clustered_positions(groups, rank, plan.confidence), rank.feature, rows, spark
        )
    return groups


def _of_tasks(table: Frame, *, values: TaskValues, rows: Frame, plan: Plan) -> Frame:
    """The groups' totals of values per task."""
    tasks = values.step(table)
    if plan.cluster is not None:
        task = nw.col(TASK)
        known = rows.filter(~task.is_null()).group_by(TASK).agg(nw.col(CLUSTER).min())
        own = nw.when(nw.col(CLUSTER).is_null()).then(task).otherwise(nw.col(CLUSTER))
        tasks = tasks.join(known.with_columns(own.alias(CLUSTER)), on=TASK)
    per_cluster, per_group = task_steps(values)
    return per_group(per_cluster(tasks))


def _of_clusters(
    spark: SparkSession,
    rows: Frame,
    plan: Plan,
    groups: GroupTotals,
    keyed_tables: Mapping[Aggregate, Frame],
) -> pl.DataFrame:
    """What clusters of several rows add to the spread of each value, a row per group."""
    wanted = plan.influences
    beside: dict[Aggregate, pl.DataFrame | Frame] = {
        aggregate: found
        for aggregate, table in keyed_tables.items()
        if (found := beside_rows(table, aggregate, wanted)) is not None
    }
    if plan.cluster is None:
        rows = rows.with_columns(nw.col(TASK).alias(CLUSTER))
    rows = rows.filter(~nw.col(CLUSTER).is_null())
    moved = effects(rows, wanted, groups, beside, partial(_join_table, spark=spark))
    return _collected(beyond_rows(per_cluster(moved, wanted), wanted))


def _add_ranks(
    groups: GroupTotals,
    positions: Sequence[tuple[str, str, int]],
    feature: Feature,
    rows: Frame,
    spark: SparkSession,
) -> None:
    found = select_ranks(
        feature,
        positions,
        lambda count: _collected(count(rows)),
        partial(_join_small, spark=spark),
        sum(value_counts(groups, feature).values()),
    )
    for group, name, value in found:
        groups[group][name] = value


def _join_table(
    rows: Frame, table: pl.DataFrame | Frame, on: Sequence[str], *, spark: SparkSession
) -> Frame:
    other = _on_cluster(table, spark) if isinstance(table, pl.DataFrame) else table
    return rows.join(other, on=list(on), how="left")


def _join_small(rows: Frame, few: pl.DataFrame, *, spark: SparkSession) -> Frame:
    return rows.join(_on_cluster(few, spark), on=GROUP)


def _on_cluster(table: pl.DataFrame, spark: SparkSession) -> Frame:
    types = ", ".join(
        f"`{name}` {_SPARK_TYPES[type(dtype)]}" for name, dtype in table.schema.items()
    )
    return nw.from_native(spark.createDataFrame(table.rows(), types))


def _collected(frame: Frame) -> pl.DataFrame:
    """A small table of the cluster's, on the driver."""
    native: DataFrame = frame.to_native()
    return pl.DataFrame([row.asDict() for row in native.collect()], infer_schema_length=None)
