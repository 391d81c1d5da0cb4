"""Measured batches from a cluster, in the order of the records, for what is computed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from calipers.engines.measuring import MeasuredBatch, measure_chunk
from calipers.engines.plan import Plan
from calipers.engines.spark.cells import gather, pack_bad, unpack_bad
from calipers.engines.spark.engine import explain_failures, locate_bad
from calipers.records.sources import Source, Wanted
from calipers.records.spark.session import pack, send_loaded_files, to_batches, unpack
from calipers.records.spark.table import MakeChunk, move_to_spark
from calipers.support.quick_dataclasses import dataclass


def measure_source(
    source: Source, wanted: Wanted, plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Yield the source's rows with the columns asked for, measured by workers, in order."""
    moved = move_to_spark(source)
    send_loaded_files()
    work = _MeasureInOrder(moved.make_chunks(wanted), plan, tuple(columns))
    told = False
    with explain_failures():
        cells = moved.select(wanted).mapInArrow(work, "piece binary, bad binary")
        for row in cells.toLocalIterator(prefetchPartitions=True):
            bad = unpack_bad(row["bad"])
            if bad and (located := locate_bad(moved, wanted)):
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
