"""The engine for one machine: batches through a few threads, totals part by part."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import narwhals as nw
import polars as pl

from calipers.engines.batches import MeasuredBatch, measured_chunk, numbered
from calipers.engines.outcome import Outcome, Reading, Sinks
from calipers.engines.plan import IDENTITY, Plan, coarse
from calipers.engines.ranks import KEY, Tally, select_rank
from calipers.engines.store import Store
from calipers.engines.totals import (
    GroupTotals,
    add_totals,
    housekeeping,
    keyed,
    merged,
    rank_counts,
    summed,
)
from calipers.metrics.declaration import GROUP, TASK, Aggregate, Frame, Rank
from calipers.sources import Chunk, Source, Wanted

T = TypeVar("T")


def measured_batches(
    chunks: Iterable[Chunk], plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Each chunk's rows with the columns asked for, in order, several chunks at work at a time."""
    return _in_order(lambda chunk: measured_chunk(chunk, plan, columns), chunks)


def _in_order(work: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
    """`work` on each item in threads, results in the items' order, only a few ahead."""
    threads = min(8, os.cpu_count() or 1) + 1  # one more: some steps wait for Python's lock
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def run(sources: Sequence[Source], wanted: Wanted, plan: Plan, sinks: Sinks) -> Outcome:
    """Read every source once; rows go to the store in compact form, samples to their file."""
    columns = list(plan.schema)
    kept = plan.sample_columns if sinks.wants_samples else {}
    extra = [name for name in dict.fromkeys(kept.values()) if name not in plan.schema]
    readings: list[Reading] = []
    with Store(plan.schema) as store:
        for source in sources:
            reading = Reading()
            chunks = source.chunks(wanted)
            for batch in measured_batches(chunks, plan, columns=[*columns, *extra]):
                sinks.bad_rows(batch.bad)
                reading.rows += batch.rows.height
                reading.skipped += len(batch.bad)
                store.add(batch.rows.select(columns) if kept else batch.rows)
                if kept:
                    rows = batch.rows.select(pl.col(own).alias(name) for name, own in kept.items())
                    sinks.samples(
                        numbered(rows, sum(each.rows for each in readings) + reading.rows)
                    )
                sinks.progress((len(readings) + batch.done) / len(sources))
            readings.append(reading)
        return Outcome(totals(store, plan), tuple(readings))


def totals(store: Store, plan: Plan) -> GroupTotals:
    """Every group's totals over the whole store."""
    groups: GroupTotals = {}
    aggregates = merged((*housekeeping(plan), *plan.aggregates))
    tables: list[list[list[pl.DataFrame]]] = [[] for _ in aggregates]
    for part in store.parts():
        repeated = part.filter(pl.col(TASK).is_duplicated())
        shares = [_share(part, repeated, aggregate) for aggregate in aggregates]
        with ThreadPoolExecutor() as pool:
            for found, counted in zip(tables, pool.map(_of_part, shares, aggregates), strict=True):
                found.append(counted)
    for aggregate, found in zip(aggregates, tables, strict=True):
        for table in _of_all(found, aggregate):
            add_totals(groups, table)
    for rank in plan.ranks:
        counts = rank_counts(groups, rank)
        values = select_rank(rank, counts, _tally(store, rank), _join_small)
        for group, value in values.items():
            groups[group][rank.value_name] = value
    return groups


def _share(part: pl.DataFrame, repeated: pl.DataFrame, aggregate: Aggregate) -> pl.DataFrame:
    """The rows that can count: a task or a call that is there once is never repeated."""
    if TASK not in aggregate.keys:
        return part
    if IDENTITY not in aggregate.keys:
        return repeated
    return repeated.filter(pl.col(IDENTITY).is_duplicated())


def _of_part(part: pl.DataFrame, aggregate: Aggregate) -> list[pl.DataFrame]:
    """A part's tables: finished where the key is a task, which is whole within its part."""
    table = _collected(keyed(nw.from_native(part.lazy()), aggregate), *aggregate.keys)
    return _finished(table, aggregate) if TASK in aggregate.keys else [table]


def _of_all(parts: Sequence[Sequence[pl.DataFrame]], aggregate: Aggregate) -> list[pl.DataFrame]:
    """The groups' totals from the tables of all parts."""
    if not aggregate.keys or TASK in aggregate.keys:
        return [summed(tables, [GROUP]) for tables in zip(*parts, strict=True)]
    return _finished(summed((part[0] for part in parts), [GROUP, *aggregate.keys]), aggregate)


def _finished(table: pl.DataFrame, aggregate: Aggregate) -> list[pl.DataFrame]:
    tables = []
    for steps in aggregate.finish:
        found = table
        for step in steps:
            found = _collected(step(nw.from_native(found.lazy())))
        tables.append(found)
    return tables


def _tally(store: Store, rank: Rank) -> Tally:
    columns = (GROUP, rank.feature.name, coarse(rank.feature))

    def tally(count: Callable[[Frame], Frame]) -> pl.DataFrame:
        parts = store.parts(columns)
        tables = (_collected(count(nw.from_native(part.lazy())), KEY) for part in parts)
        return summed(tables, [GROUP, KEY])

    return tally


def _join_small(rows: Frame, few: pl.DataFrame) -> Frame:
    return rows.join(nw.from_native(few.lazy()), on=GROUP)


def _collected(frame: Frame, *keys: str) -> pl.DataFrame:
    """The table in the order of its keys: sums over it then give the same bits every time."""
    native: pl.LazyFrame = frame.to_native()
    order = [name for name in (GROUP, TASK, *keys) if name in native.collect_schema()]
    return native.sort(order).collect(engine="in-memory")
