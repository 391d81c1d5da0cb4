"""Measure every source in the workers, and add up part by part in the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import reduce
from typing import Any

import polars as pl
from pyspark.sql import DataFrame

from calipers.engines.measuring import MeasuredBatch, measure_chunk
from calipers.engines.outcome import ROWS as COUNT
from calipers.engines.outcome import TEXT, Outcome, Reading, Sinks, TextTally
from calipers.engines.plan import Plan
from calipers.engines.polars import measure
from calipers.engines.reading import MeasuredRows
from calipers.engines.resampling import Resampled, bootstrap, seed_of
from calipers.engines.spark.cells import (
    BAD,
    CELLS,
    SAMPLES,
    SCHEMA,
    SUMMARY,
    CellWork,
    PartitionSummary,
    gather,
    pack_bad,
    unpack_bad,
)
from calipers.engines.spark.parts import ClusterRows
from calipers.engines.spark.samples import save_samples, stream_samples
from calipers.engines.spark.spreading import count_partitions, count_parts, find_keys
from calipers.engines.store import GroupedRows
from calipers.engines.totals import GroupTotals
from calipers.metrics.declare.declaration import GROUP, Feature
from calipers.records.sources import BadRow, Source, Wanted
from calipers.records.spark.failures import SPARK_ERRORS, explain_executors, find_last_line
from calipers.records.spark.session import pack, send_loaded_files, to_batches, unpack
from calipers.records.spark.table import MakeChunk, SparkSource, move_to_spark
from calipers.records.tables import Rows
from calipers.statistics.intervals import Interval
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass


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
        found, name, codes = TextTally(), feature.name, self.store.codes

        def count(part: pl.DataFrame) -> list[pl.DataFrame]:
            counts = part.drop_nulls(name).group_by(GROUP, pl.col(name).alias(TEXT))
            counted = counts.agg(pl.len().cast(pl.Int64).alias(COUNT)).sort(GROUP, TEXT)
            return [counted.with_columns(codes.decode(counted[GROUP]))]

        for [table] in rows.map_parts(count, [GROUP, name]):
            found.add(table)
        return found.table

    def resample(self, rows: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
        """Return each group's intervals by resampling in a worker, where its rows are gathered.

        As on one machine, a group has to fit in memory, here in that of one worker.
        """
        del rows  # these are its own

        def resample(group: str, own: pl.DataFrame) -> dict[str, Any]:
            return asdict(bootstrap(own, plan, groups[group], seed_of(plan, group)))

        return {
            group: Resampled(
                {name: Interval(**each) for name, each in found["intervals"].items()},
                found["refused"],
            )
            for group, found in sorted(self.store.map_groups(resample))
        }


@contextmanager
def _measure_in_cluster(
    sources: Sequence[SparkSource], wanted: Wanted, plan: Plan, sinks: Sinks
) -> Iterator[ClusterRead]:
    """Measure the sources; Spark keeps the cells until the block ends."""
    schema = {name: dtype for name, dtype in plan.schema.items() if name not in plan.having}
    schema |= {feature.name: feature.dtype for feature in plan.tallied}
    samples = plan.sample_columns if sinks.wants_samples else {}
    partitions, measured = _list_cells(sources, wanted, plan, tuple(schema), samples)
    with ExitStack() as kept:
        if samples:  # which are read in the order of the records
            kept.enter_context(_persist(measured))
        cells = measured.filter(f"kind <> '{SAMPLES}'").repartition(partitions, "part")
        kept.enter_context(_persist(cells))
        found = _collect_summaries(cells)
        readings = _count_readings(found, len(sources))
        for number, source in enumerate(sources):
            if readings[number].skipped:
                sinks.take_bad_rows(_locate_bad(source, wanted) or _collect_bad(cells, source))
        sinks.report_progress(1.0)
        rows = sum(each.rows for each in readings)
        if samples and sinks.samples_table is not None:
            save_samples(measured, found, _collect(cells, SCHEMA), sinks.samples_table)
        elif samples:
            stream_samples(measured, sinks, rows)
        having = {name: sum(each.having.get(name, 0) for each in found) for name in plan.watched}
        groups = {group for each in found for group in each.groups}
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
    partitions = count_partitions(selected)
    keys = find_keys(partitions)
    measured = [
        raw.mapInArrow(
            CellWork(
                source=number,
                make_chunk=source.make_chunks(wanted),
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
    found = cells.filter(f"kind = '{kind}'").select("place", "piece").collect()
    return [row["piece"] for row in sorted(found)]


def _count_readings(found: Sequence[PartitionSummary], sources: int) -> tuple[Reading, ...]:
    readings = tuple(Reading() for _ in range(sources))
    for each in found:
        reading = readings[each.source]
        reading.rows += each.rows
        reading.skipped += each.skipped
        reading.with_id += each.with_id
    return readings


def _locate_bad(source: SparkSource, wanted: Wanted) -> list[BadRow]:
    """Return the bad rows of files with their line numbers, which only a reader in order knows."""
    origin = source.origin
    if origin is None or (origin.path is None and not isinstance(origin, Rows)):
        return []
    return [bad for chunk in origin.chunks(wanted) for bad in chunk.exact().bad]


def _collect_bad(cells: DataFrame, source: SparkSource) -> list[BadRow]:
    every = (bad for piece in _collect(cells, BAD) for bad in unpack_bad(piece))
    return [bad for bad in every if bad.source == source.name]


def measure_source(
    source: Source, wanted: Wanted, plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Yield the source's rows with the columns asked for, measured by workers, in order."""
    moved = move_to_spark(source)
    send_loaded_files()
    work = _MeasureInOrder(moved.make_chunks(wanted), plan, tuple(columns))
    told = False
    with _explain_failures():
        cells = moved.select(wanted).mapInArrow(work, "piece binary, bad binary")
        for row in cells.toLocalIterator(prefetchPartitions=True):
            bad = unpack_bad(row["bad"])
            if bad and (located := _locate_bad(moved, wanted)):
                bad = [] if told else located  # all of them at once: they are read in order
                told = True
            yield MeasuredBatch(unpack(row["piece"]), tuple(bad), 0.0)


@dataclass(frozen=True)
class _MeasureInOrder:
    """What a worker does with raw rows."""

    make_chunk: MakeChunk
    plan: Plan
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for rows in gather(batches):
            measured = measure_chunk(self.make_chunk(rows), self.plan, self.columns)
            cell = {"piece": [pack(measured.rows)], "bad": [pack_bad(measured.bad)]}
            yield from to_batches(pl.DataFrame(cell))
