"""A row per record from the cluster: to the driver's file, or to a table that workers write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import polars as pl
from pyspark.sql import DataFrame

from calipers.engines.measuring import number_rows
from calipers.engines.outcome import Sinks
from calipers.engines.spark.cells import SAMPLES, PartitionSummary, name_partition
from calipers.records.spark.saving import conform_schema, make_frame, save_rows
from calipers.records.spark.session import to_batches, unpack
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

_OPTION = "--per-sample"


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
            f"{_OPTION}: {written:,} rows arrived from the cluster, {expected:,} were measured",
            fix="run it again; if it stays so, the file changes while it is read",
        )


def save_samples(
    measured: DataFrame, found: Sequence[PartitionSummary], schemas: Iterable[Any], name: str
) -> None:
    """Save per-sample values, by the workers, as a new table; `schemas` are tables without rows.

    Raises:
        DataError: Spark cannot write it, or another number of rows than was measured.
    """
    empty = [unpack(piece) for piece in schemas]
    if not empty:  # no record, which the score says
        return
    common = conform_schema(pl.concat(empty, how="vertical_relaxed").schema)
    ends = accumulate(each.rows for each in found)
    before = {each.partition: end - each.rows for each, end in zip(found, ends, strict=True)}
    cells = measured.filter(f"kind = '{SAMPLES}'").select("place", "piece")
    rows = cells.mapInArrow(_Unpack(common, before), make_frame(common.to_frame()).schema)
    save_rows(rows, name, expected=sum(each.rows for each in found), option=_OPTION)


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
