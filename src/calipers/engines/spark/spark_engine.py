"""The engine for a cluster: workers run the code of the Polars engine on the parts of the rows.

A worker measures the records where they are, and packs the narrow columns into compressed cells.
Spark moves each cell once, so that all runs of a task are in one partition, and keeps it. From then
on a pass over the parts is a job of Spark's, and only totals reach the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from calipers.engines.features import MeasuredBatch, measure_chunk
from calipers.engines.group_totals import GroupTotals
from calipers.engines.outcome import ROWS as COUNT
from calipers.engines.outcome import TEXT, Outcome, RowCounts, Sinks, TextTally
from calipers.engines.plan import Plan
from calipers.engines.polars_engine import measure
from calipers.engines.read_rows import MeasuredRows
from calipers.engines.resampling import Resampled, bootstrap, make_seed
from calipers.engines.spark.cluster_rows import (
    BAD,
    CELLS,
    SAMPLES,
    SCHEMA,
    SUMMARY,
    CellWork,
    ClusterRows,
    PartitionSummary,
    count_partitions,
    count_parts,
    find_keys,
    find_source,
    pack_bad,
    unpack_bad,
)
from calipers.engines.spark.session import (
    SPARK_ERRORS,
    explain_executors,
    find_last_line,
    make_cell,
    pack,
    send_loaded_files,
    unpack,
)
from calipers.engines.spark.spark_output import save_samples, stream_samples
from calipers.engines.spark.spark_sources import (
    MakeChunks,
    SparkFiles,
    SparkSource,
    move_to_spark,
)
from calipers.engines.store import GroupedRows
from calipers.metrics.declare.declaration import GROUP, Feature
from calipers.records.batch import BadRow, Source, Wanted
from calipers.records.readers.tables import RowList
from calipers.records.rows import settle_types
from calipers.statistics.intervals import Interval
from calipers.support.errors import DataError


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Measure every source in the workers and add up in the cluster."""
    moved = [move_to_spark(source) for source in sources]
    send_loaded_files()
    with _explain_failures(), _measure_in_cluster(moved, wanted, plan, sinks) as read:
        return measure(read, plan, sinks)


@contextmanager
def _explain_failures() -> Iterator[None]:
    """Raise DataError, with the line that matters, where Spark gives up inside the block.

    UsageError where the executors lack what the work needs.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        raise explain_executors(error) or DataError(
            f"Spark gave up: {find_last_line(error)}",
            fix="try --engine polars on a part of the data to see the row in question",
        ) from error


@dataclass(frozen=True, kw_only=True)
class ClusterRead(MeasuredRows):
    """Rows that are kept in the cluster."""

    store: ClusterRows

    def group(self, by: tuple[str, ...]) -> GroupedRows:
        """Return the rows in the groups of these fields, by which they were read."""
        assert by == self.plan.by
        return self.store

    def tally(self, rows: GroupedRows, feature: Feature) -> pl.DataFrame:
        """Count how many rows of each group have each text: the most frequent, the rest as one."""
        tally, name, codes = TextTally(), feature.name, self.store.codes

        def count(part: pl.DataFrame) -> list[pl.DataFrame]:
            counts = part.drop_nulls(name).group_by(GROUP, pl.col(name).alias(TEXT))
            counted = counts.agg(pl.len().cast(pl.Int64).alias(COUNT)).sort(GROUP, TEXT)
            return [counted.with_columns(codes.decode(counted[GROUP]))]

        for [table] in rows.map_parts(count, [GROUP, name]):
            tally.add(table)
        return tally.table

    def resample(self, rows: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
        """Return each group's intervals by resampling in a worker, where its rows are gathered.

        As on one machine, a group has to fit in memory, here in that of one worker.
        """
        del rows  # these are its own

        def resample(group: str, own: pl.DataFrame) -> dict[str, Any]:
            return asdict(bootstrap(own, plan, groups[group], make_seed(plan, group)))

        return {
            group: Resampled(
                {name: Interval(**bounds) for name, bounds in stored["intervals"].items()},
                stored["refused"],
            )
            for group, stored in sorted(self.store.map_groups(resample))
        }


@contextmanager
def _measure_in_cluster(
    sources: Sequence[SparkSource], wanted: Wanted, plan: Plan, sinks: Sinks
) -> Iterator[ClusterRead]:
    """Measure the sources; Spark keeps the cells until the block ends."""
    wanted = settle_types(sources, wanted)
    schema = {name: dtype for name, dtype in plan.schema.items() if name not in plan.having}
    schema |= {feature.name: feature.dtype for feature in plan.tallied}
    samples = plan.sample_columns if sinks.wants_samples else {}
    partitions, measured = _list_cells(sources, wanted, plan, tuple(schema), samples)
    with ExitStack() as kept:
        if samples:  # which are read in the order of the records
            kept.enter_context(_persist(measured))
        cells = measured.filter(f"kind <> '{SAMPLES}'").repartition(partitions, "part")
        kept.enter_context(_persist(cells))
        summaries = _collect_summaries(cells)
        readings = _count_readings(summaries, len(sources))
        for number, source in enumerate(sources):
            if readings[number].skipped:
                sinks.take_bad_rows(_locate_bad(source, wanted) or _collect_bad(cells, number))
        sinks.report_progress(1.0)
        rows = sum(reading.rows for reading in readings)
        if samples and sinks.samples_table is not None:
            save_samples(measured, summaries, _collect(cells, SCHEMA), sinks.samples_table)
        elif samples:
            stream_samples(measured, sinks, rows)
        having = {
            name: sum(summary.having.get(name, 0) for summary in summaries) for name in plan.watched
        }
        groups = {group for summary in summaries for group in summary.groups}
        parts = count_parts(cells.sparkSession, partitions, rows)
        store = ClusterRows(cells.coalesce(parts), schema, groups, rows)
        yield ClusterRead(plan=plan, readings=readings, having=having, store=store)


def _list_cells(
    sources: Sequence[SparkSource],
    wanted: Wanted,
    plan: Plan,
    columns: tuple[str, ...],
    samples: Mapping[str, str],
) -> tuple[int, DataFrame]:
    """Return into how many partitions cells go, and those of all sources, in the records' order."""
    selected = [source.select(wanted) for source in sources]
    sizes = [source.estimate_bytes(frame) for source, frame in zip(sources, selected, strict=True)]
    partitions = count_partitions(selected[0].sparkSession, sizes)
    keys = find_keys(partitions)
    measured = [
        raw.mapInArrow(
            CellWork(
                source=number,
                make_chunks=source.make_chunks(wanted),
                plan=plan,
                columns=columns,
                samples=samples,
                parts=keys,
            ),
            CELLS,
        )
        for number, (source, raw) in enumerate(zip(sources, selected, strict=True))
    ]
    return partitions, reduce(DataFrame.unionAll, measured)


@contextmanager
def _persist(frame: DataFrame) -> Iterator[None]:
    """Keep the rows in the cluster while they are read several times, inside the block."""
    frame.persist()
    try:
        yield
    finally:
        frame.unpersist()


def _collect_summaries(cells: DataFrame) -> list[PartitionSummary]:
    """Return what the workers read; this measures all records."""
    return [PartitionSummary(**json.loads(bytes(piece))) for piece in _collect(cells, SUMMARY)]


def _collect(cells: DataFrame, kind: str) -> list[Any]:
    """Return the pieces of all cells of a kind, in order."""
    rows = cells.filter(f"kind = '{kind}'").select("place", "piece").collect()
    return [row["piece"] for row in sorted(rows)]


def _count_readings(summaries: Sequence[PartitionSummary], sources: int) -> tuple[RowCounts, ...]:
    readings = tuple(RowCounts() for _ in range(sources))
    for summary in summaries:
        reading = readings[summary.source]
        reading.rows += summary.rows
        reading.skipped += summary.skipped
        reading.nulled += summary.nulled
        reading.with_id += summary.with_id
    return readings


def _locate_bad(source: SparkSource, wanted: Wanted) -> list[BadRow]:
    """Return the bad rows of text with their line numbers, which only a reader in order knows."""
    origin = source.origin
    if isinstance(source, SparkFiles):  # whose workers know them
        return []
    if origin is None or (origin.path is None and not isinstance(origin, RowList)):
        return []
    return [bad for chunk in origin.chunks(wanted) for bad in chunk.exact().bad]


def _collect_bad(cells: DataFrame, source: int) -> list[BadRow]:
    """Return what the workers found bad in the source of this number."""
    found = sorted(cells.filter(f"kind = '{BAD}'").select("place", "piece").collect())
    own = (row["piece"] for row in found if find_source(row["place"]) == source)
    return [bad for piece in own for bad in unpack_bad(piece)]


def measure_on_cluster(
    source: Source, wanted: Wanted, plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Yield the source's rows with the columns asked for, measured by workers, in order."""
    moved = move_to_spark(source)
    send_loaded_files()
    work = _MeasureInOrder(moved.make_chunks(wanted), plan, tuple(columns))
    has_told = False
    with _explain_failures():
        cells = moved.select_finely(wanted).mapInArrow(work, "piece binary, bad binary")
        for row in cells.toLocalIterator(prefetchPartitions=True):
            bad = unpack_bad(row["bad"])
            if bad and (located := _locate_bad(moved, wanted)):
                bad = [] if has_told else located  # all of them at once: they are read in order
                has_told = True
            yield MeasuredBatch(unpack(row["piece"]), tuple(bad), 0.0)


_ROWS_AND_BAD = {"piece": pa.binary(), "bad": pa.binary()}


@dataclass(frozen=True)
class _MeasureInOrder:
    """What a worker does with raw rows."""

    make_chunks: MakeChunks
    plan: Plan
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for chunk in self.make_chunks(batches):
            measured = measure_chunk(chunk, self.plan, self.columns)
            yield make_cell(_ROWS_AND_BAD, pack(measured.rows), pack_bad(measured.bad))
