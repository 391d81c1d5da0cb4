"""Read records once: a few threads measure chunk by chunk, narrow columns go to the store."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from calipers.engines.codes import Codes, name_key
from calipers.engines.measuring import MeasuredBatch, measure_chunk, number_rows
from calipers.engines.outcome import MOST_TEXTS, ROWS, TEXT, Reading, Sinks
from calipers.engines.plan import Plan, name_presence
from calipers.engines.regrouped import Regrouped
from calipers.engines.store import GroupedRows, Store
from calipers.engines.threads import map_in_order
from calipers.engines.totals import GroupTotals
from calipers.metrics.declare.declaration import GROUP, Feature
from calipers.records.completing import list_derivable
from calipers.records.paths import find_column
from calipers.records.sources import Chunk, Source, Wanted
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.engines.resampling import Resampled


@dataclass(frozen=True, kw_only=True)
class MeasuredRows(ABC):
    """The rows of all sources, measured, wherever they are, and what was read of each source."""

    plan: Plan
    readings: tuple[Reading, ...]
    having: dict[str, int]  # how many rows have each field whose presence decides something

    @abstractmethod
    def group(self, by: tuple[str, ...]) -> GroupedRows:
        """Return the rows in the groups of these fields."""

    @abstractmethod
    def tally(self, rows: GroupedRows, feature: Feature) -> pl.DataFrame:
        """Count how many rows of each group have each text."""

    @abstractmethod
    def resample(self, rows: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
        """Return each group's intervals by resampling its clusters."""


@dataclass(frozen=True, kw_only=True)
class ReadRows(MeasuredRows):
    """Rows that are kept on this machine."""

    store: Store

    def group(self, by: tuple[str, ...]) -> GroupedRows:
        """Return the rows in the groups of these fields."""
        plan = self.plan
        if by == plan.by:
            return self.store
        return Regrouped(self.store, by, kept_by=plan.by, cluster=plan.cluster)

    def tally(self, rows: GroupedRows, feature: Feature) -> pl.DataFrame:
        """Count how many rows of each group have each text."""
        name = feature.name
        parts = (
            part.drop_nulls(name).group_by(GROUP, name).agg(pl.len().cast(pl.Int64).alias(ROWS))
            for part in rows.parts([GROUP, name])
        )
        counts = pl.concat(parts).group_by(GROUP, name).agg(pl.col(ROWS).sum())
        texts = self.store.texts[name].decode(counts[name]).alias(TEXT)
        named = rows.codes.decode_groups(counts).with_columns(texts)
        return named.select(GROUP, TEXT, ROWS).sort(GROUP, TEXT)

    def resample(self, rows: GroupedRows, plan: Plan, groups: GroupTotals) -> dict[str, Resampled]:
        """Return each group's intervals by resampling; the group is gathered from all parts."""
        from calipers.engines.resampling import bootstrap, seed_of  # noqa: PLC0415 (if asked for)

        return {
            group: bootstrap(found, plan, groups[group], seed_of(plan, group))
            for group in groups
            if (found := _gather_rows(group, rows)).height
        }


def _gather_rows(group: str, store: GroupedRows) -> pl.DataFrame:
    code = store.codes.number(group)
    return store.codes.decode_groups(
        pl.concat(part.filter(pl.col(GROUP) == code) for part in store.parts())
    )


def list_possible(sources: Sequence[Source], wanted: Wanted, plan: Plan) -> frozenset[str] | None:
    """Return which fields that decide something rows may have; None where no one can say."""
    if not all(getattr(source, "knows_columns", False) for source in sources):
        return None
    columns = {name for source in sources for name in source.columns()}
    there = (name for name in plan.watched if find_column(wanted.get_name(name), columns))
    filled = plan.settings.checks.filled if plan.settings.checks else ()
    return frozenset((*there, *list_derivable(columns), *filled))


@contextmanager
def read_rows(
    sources: Sequence[Source],
    wanted: Wanted,
    plan: Plan,
    sinks: Sinks,
    engine: str | None = None,
) -> Iterator[ReadRows]:
    """Read every source once; rows are kept, in memory or in files, until the block ends."""
    engine = pick_engine(engine, sources)
    texts = {feature.name: Codes(MOST_TEXTS) for feature in plan.tallied}
    texts |= {
        name_key(name): Codes(MOST_TEXTS if name in plan.regrouped_if_few else None)
        for name in plan.key_fields
    }
    schema = {name: dtype for name, dtype in plan.schema.items() if name not in plan.having}
    kept = plan.sample_columns if sinks.wants_samples else {}
    columns = list(dict.fromkeys((*schema, *plan.having, *texts, *kept.values())))
    readings: list[Reading] = []
    having = dict.fromkeys(plan.watched, 0)
    read = 0
    with Store(schema, texts=texts) as store:
        for source in sources:
            reading = Reading()
            for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
                sinks.take_bad_rows(batch.bad)
                read += batch.rows.height
                reading.rows += batch.rows.height
                reading.skipped += len(batch.bad)
                reading.with_id += int(batch.rows[name_presence("id")].sum())
                store.add(batch.rows.select(*schema, *texts))
                for name in plan.watched:
                    having[name] += int(batch.rows[name_presence(name)].sum())
                if kept:
                    rows = batch.rows.select(pl.col(own).alias(name) for name, own in kept.items())
                    sinks.take_samples(number_rows(rows, read))
                sinks.report_progress((len(readings) + batch.done) / len(sources))
            readings.append(reading)
        yield ReadRows(plan=plan, store=store, readings=tuple(readings), having=having)


def pick_engine(asked: str | None, sources: Iterable[Source]) -> str:
    """Return the engine that was asked for; by default Spark for what Spark reads."""
    of_spark = any(getattr(source, "is_of_spark", False) for source in sources)
    return asked or ("spark" if of_spark else "polars")


def measure_source(
    source: Source, wanted: Wanted, plan: Plan, *, columns: Sequence[str], engine: str
) -> Iterator[MeasuredBatch]:
    """Yield the source's rows with the columns asked for, in order, measured here or by workers."""
    if engine == "spark":
        from calipers.engines.spark import measure_source as measure_there  # noqa: PLC0415

        return measure_there(source, wanted, plan, columns=columns)
    return measure_batches(source.chunks(wanted), plan, columns=columns)


def measure_batches(
    chunks: Iterable[Chunk], plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Yield each chunk's rows with the columns asked for, in order, several chunks in parallel."""
    threads = min(8, os.cpu_count() or 1) + 1  # one more: some steps wait for Python's lock
    return map_in_order(lambda chunk: measure_chunk(chunk, plan, columns), chunks, threads)
