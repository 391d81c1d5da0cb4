"""Read records once: a few threads measure chunk by chunk, narrow columns go to the store.

Rows that were read once can be grouped by other fields afterwards. A group's text and a task's
number are then those that reading by these fields would have given, so that totals are the same to
the last bit.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from calipers.engines.features import MeasuredBatch, measure_chunk, number_rows
from calipers.engines.group_codes import Codes, hash_in_group, name_key_column
from calipers.engines.group_totals import GroupTotals
from calipers.engines.outcome import MOST_TEXTS, ROWS, TEXT, RowCounts, Sinks
from calipers.engines.plan import CLUSTER_TEXT, Plan, name_presence
from calipers.engines.store import GroupedRows, Store, map_in_order
from calipers.metrics.declare.declaration import CLUSTER, GROUP, TASK, Feature
from calipers.records.batch import Chunk, Source, Wanted, find_column
from calipers.records.derived_fields import list_derivable
from calipers.records.rows import settle_types

if TYPE_CHECKING:
    from calipers.engines.resampling import Resampled

_ID = "id"
_KEPT_GROUP = "_kept_group"  # of the store, in whose place the new groups stand


class Regrouped(GroupedRows):
    """The rows of a store by some of the keys that it has, or all of them in one group."""

    def __init__(
        self, store: Store, by: Sequence[str], *, kept_by: tuple[str, ...], cluster: str | None
    ) -> None:
        super().__init__()
        self.rows = store.rows
        self._store = store
        self._by = tuple(by)
        self._keys = [_KEPT_GROUP if (name,) == kept_by else name_key_column(name) for name in by]
        self._hashed = {TASK: _ID} | ({} if cluster is None else {CLUSTER: CLUSTER_TEXT})
        self._numbers = self._number_groups()

    def _number_groups(self) -> pl.DataFrame:
        """Number the combinations of keys in the order in which they first come."""
        if not self._keys:
            return pl.DataFrame([self.codes.encode(pl.Series(GROUP, ["{}"]))])
        parts = (part.unique(maintain_order=True) for part in self._read(self._keys))
        groups = pl.concat(parts).unique(maintain_order=True)
        fields = (
            (self._store.codes if key == _KEPT_GROUP else self._store.texts[key])
            .decode(groups[key])
            .fill_null(json.dumps({name: None}, ensure_ascii=False, separators=(",", ":")))
            .str.strip_prefix("{")
            .str.strip_suffix("}")
            for name, key in zip(self._by, self._keys, strict=True)
        )
        joined = pl.concat_str(pl.all(), separator=",")
        text = pl.concat_str(pl.lit("{"), joined, pl.lit("}")).alias(GROUP)
        texts = pl.DataFrame(fields).select(text).to_series()
        return groups.with_columns(self.codes.encode(texts))

    @property
    def is_held(self) -> bool:
        """Return True if all rows are in memory, as one part."""
        return self._store.is_held

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield each part of the store, in the order of its groups by these keys."""
        wanted = list(columns or self._store.columns)
        for part in self._regroup([*wanted, *({GROUP} - {*wanted})]):
            yield part.sort(GROUP, maintain_order=True).select(wanted)

    def list_groups(self) -> Iterator[pl.Series]:
        """Yield the groups of each part, by their numbers, in the order of the store's own rows."""
        return (part[GROUP] for part in self._regroup([GROUP]))

    def _regroup(self, wanted: list[str]) -> Iterator[pl.DataFrame]:
        """Yield each part of the store with its groups, tasks and clusters by these keys."""
        own = {name for name in wanted if name == GROUP or name in self._hashed}
        others = [name for name in wanted if name not in own]
        if self._store.is_held:
            [part] = self._store.parts(others or [GROUP])
            yield part.with_columns(self._held.select(own)).select(wanted)
            return
        needed = dict.fromkeys((*self._keys, *self._hashed.values(), *others))
        for part in self._read(needed):
            yield part.with_columns(self._group(part).select(own)).select(wanted)

    @cached_property
    def _held(self) -> pl.DataFrame:
        [part] = self._read([*self._keys, *self._hashed.values()])
        return self._group(part)

    def _read(self, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
        """Yield these columns of each part, among them the store's own groups."""
        names = [GROUP if name == _KEPT_GROUP else name for name in columns]
        for part in self._store.parts(names):
            yield part.rename({GROUP: _KEPT_GROUP}, strict=False)

    def _group(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return the group, the task and the cluster of each row."""
        numbers = self._list_numbers(part)
        named = part.with_columns(self.codes.decode(numbers))
        hashes = (hash_in_group(text).alias(name) for name, text in self._hashed.items())
        return named.select(*hashes).with_columns(numbers)

    def _list_numbers(self, part: pl.DataFrame) -> pl.Series:
        """Return the group of each row, by its number."""
        if not self._keys:
            return pl.zeros(part.height, pl.Int32, eager=True).alias(GROUP)
        numbered = part.select(self._keys).join(
            self._numbers, on=self._keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return numbered[GROUP]


@dataclass(frozen=True, kw_only=True)
class MeasuredRows(ABC):
    """The rows of all sources, measured, wherever they are, and what was read of each source."""

    plan: Plan
    readings: tuple[RowCounts, ...]
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
        from calipers.engines.resampling import bootstrap, make_seed  # noqa: PLC0415 (if asked for)

        return {
            group: bootstrap(of_group, plan, groups[group], make_seed(plan, group))
            for group in groups
            if (of_group := _gather_rows(group, rows)).height
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
    wanted = settle_types(sources, wanted)
    texts = {feature.name: Codes(MOST_TEXTS) for feature in plan.tallied}
    texts |= {
        name_key_column(name): Codes(MOST_TEXTS if name in plan.regrouped_if_few else None)
        for name in plan.key_fields
    }
    schema = {name: dtype for name, dtype in plan.schema.items() if name not in plan.having}
    kept = plan.sample_columns if sinks.wants_samples else {}
    columns = list(dict.fromkeys((*schema, *plan.having, *texts, *kept.values())))
    readings: list[RowCounts] = []
    having = dict.fromkeys(plan.watched, 0)
    read = 0
    with Store(schema, texts=texts) as store:
        for source in sources:
            reading = RowCounts()
            for batch in measure_source(source, wanted, plan, columns=columns, engine=engine):
                sinks.take_bad_rows(batch.bad)
                read += batch.rows.height
                reading.rows += batch.rows.height
                reading.add_bad(batch.bad)
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
        from calipers.engines.spark.spark_engine import measure_on_cluster as measure_there  # noqa: PLC0415

        return measure_there(source, wanted, plan, columns=columns)
    return measure_batches(source.chunks(wanted), plan, columns=columns)


def measure_batches(
    chunks: Iterable[Chunk], plan: Plan, *, columns: Sequence[str]
) -> Iterator[MeasuredBatch]:
    """Yield each chunk's rows with the columns asked for, in order, several chunks in parallel."""
    threads = min(8, os.cpu_count() or 1) + 1  # one more: some steps wait for Python's lock
    return map_in_order(lambda chunk: measure_chunk(chunk, plan, columns), chunks, threads)
