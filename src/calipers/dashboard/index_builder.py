"""How an index is built: the source is read once, part by part, by the readers that `score` has.

Of a large source the first rows are indexed alone, so that a page has something to show. Records
with traces are read row by row: the fast reader keeps only what metrics read of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import polars as pl

from calipers.dashboard.answers import write_told
from calipers.dashboard.caches import META
from calipers.dashboard.index import LONG_TEXTS, Index, Summary, name_order, name_part, sort_rows
from calipers.engines.features import MeasuredBatch, measure_chunk
from calipers.engines.plan import FAILED, Plan, name_kept
from calipers.engines.read_rows import measure_batches
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.text import semantic_similarity
from calipers.records.batch import BadRow, Batch, Chunk, Source, UnusualRows, Wanted
from calipers.records.fields import FIELDS
from calipers.records.readers.line_chunk import JsonLinesChunk
from calipers.records.readers.parquet_check import check_decoding
from calipers.records.readers.tables import list_parts
from calipers.records.sources import open_sources
from calipers.scores.options import Options
from calipers.scores.score_plan import find_criteria
from calipers.support.files import stage_file, write_whole

BEGINNING_ROWS = 200  # rows: more than a page shows
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _WrappedChunk:
    chunk: Chunk

    @property
    def done(self) -> float:
        """The share of the source behind the chunk."""
        return self.chunk.done


@dataclass(frozen=True, slots=True)
class Exact(_WrappedChunk):
    """A chunk read row by row; the fast reader would keep only what metrics read of a trace."""

    def lazy(self) -> pl.LazyFrame:
        """Raise an error: these rows are only read one by one."""
        raise UnusualRows

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Return False: nothing was read by the fast reader."""
        del checks
        return False

    def exact(self) -> Batch:
        """Return the rows."""
        return self.chunk.exact()


@dataclass(frozen=True, slots=True)
class Beginning(_WrappedChunk):
    """The first rows of a chunk."""

    def lazy(self) -> pl.LazyFrame:
        """Return the rows as the chunk reads them at once."""
        return self.chunk.lazy().head(BEGINNING_ROWS)

    def is_trusted(self, checks: pl.DataFrame) -> bool:
        """Say whether they are what was written."""
        return self.chunk.is_trusted(checks)

    def exact(self) -> Batch:
        """Return the rows, read one by one."""
        found = self.chunk.exact()
        return replace(found, frame=found.frame.head(BEGINNING_ROWS))


def cut_chunk(chunk: Chunk) -> Chunk:
    """Return the chunk's first rows; of JSON lines without reading the rest."""
    if isinstance(chunk, Exact):
        return Exact(cut_chunk(chunk.chunk))
    if not isinstance(chunk, JsonLinesChunk):
        return Beginning(chunk)
    lines = chunk.block.data[:_MOST_BYTES].split(b"\n")[:-1][:BEGINNING_ROWS]
    if not lines:  # a line longer than that
        return Beginning(chunk)
    return replace(chunk, block=replace(chunk.block, data=b"\n".join(lines) + b"\n"))


SYSTEMS = ("model", "tier")  # the fields that tell systems apart
MOST_SYSTEMS = 50  # that a choice has room for
FEW_ROWS = 1024  # that are read at once, so that a page is read without much beside it
FIRST_ROWS = "first"  # the folder of an index of the first rows alone
_SHORT = 80  # characters of a text that is a column like others
_PROBLEMS = 20
FAILED_CALL = "failed"

ReportShare = Callable[[float, Index], None]


class ViewOptions(Options):
    """The options of a score whose plan asks no language model, which would take minutes."""

    def plan(self, sources: Sequence[Source] = ()) -> Plan:
        """Return the plan without metrics that are based on a model's similarity."""
        plan = super().plan(sources)
        own = (each for each in plan.metrics if not any(map(_needs_model, each.features)))
        return replace(plan, metrics=tuple(own))


def _needs_model(feature: Feature) -> bool:
    return semantic_similarity in feature.inputs or feature.name.startswith("_sem")


class MixedTypes(Exception):  # noqa: N818 (the index is built again without the field)
    """A field of the user's own, its only argument, that holds numbers here and texts there."""


@dataclass
class SeenColumns:
    """The columns and bad rows of the parts read so far."""

    parts: list[int] = field(default_factory=list)
    fields: dict[str, pl.DataType] = field(default_factory=dict)
    values: dict[str, pl.DataType] = field(default_factory=dict)
    skipped: int = 0
    problems: list[str] = field(default_factory=list)
    systems: dict[str, set[str]] = field(default_factory=dict)

    def add(self, records: pl.DataFrame, values: pl.DataFrame) -> None:
        """Remember which columns have anything in them."""
        self.parts.append(records.height)
        for known, frame in ((self.fields, records), (self.values, values)):
            for column in frame.iter_columns():
                if column.name not in known and column.null_count() < len(column):
                    known[column.name] = column.dtype
        for name in SYSTEMS:
            some = self.systems.setdefault(name, set())
            if len(some) <= MOST_SYSTEMS:
                some.update(records[name].drop_nulls().unique().head(MOST_SYSTEMS + 1).to_list())

    def add_bad(self, bad: tuple[BadRow, ...]) -> None:
        """Remember the rows that cannot be read, the first of them with the reason."""
        self.skipped += len(bad)
        self.problems += (
            f"row {row.row}: {row.problem}" for row in bad[: _PROBLEMS - len(self.problems)]
        )

    def freeze(self, order: list[str], notices: tuple[str, ...]) -> Summary:
        """Return the summary, fields in the record's order."""
        return Summary(
            parts=tuple(self.parts),
            fields={name: self.fields[name] for name in order if name in self.fields},
            values=dict(self.values),
            skipped=self.skipped,
            problems=tuple(self.problems),
            notices=notices,
            systems={
                name: tuple(sorted(values))
                for name, values in self.systems.items()
                if 1 < len(values) <= MOST_SYSTEMS
            },
        )


def build_index(
    path: Path,
    folder: Path,
    progress: ReportShare,
    field_map: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> None:
    """Write the index of a source into a folder; `progress` may look at what is there so far.

    The index is complete when META exists. `write_orders` then sorts its columns ahead of use.
    """
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        # Of any size: what ends this process ends the dashboard for all who look at it.
        check_decoding(list_parts(path) if path.is_dir() else [path], largest=None)
    source = open_sources(path)[0]
    known = set(source.columns())
    names = {ours: theirs for ours, theirs in (field_map or {}).items() if theirs in known}
    settings = settings or Settings()
    if settings.checks is not None:
        columns = tuple(sorted(known - {*names.values()}))
        settings = replace(settings, checks=settings.checks.restrict(columns))
    plan = ViewOptions(settings=settings).plan()
    criteria = find_criteria([source], names)
    plan = replace(plan, metrics=tuple(dict.fromkeys((*plan.metrics, *criteria))))
    left_out: list[str] = []
    while True:
        try:
            summary = _index_source(source, folder, names, plan, tuple(left_out), progress)
        except MixedTypes as found:
            left_out += found.args
        else:
            break
    write_told(Index(folder, summary))
    write_whole(folder / META, summary.to_json())


def _index_source(
    source: Source,
    folder: Path,
    field_map: Mapping[str, str],
    plan: Plan,
    left_out: tuple[str, ...],
    progress: ReportShare,
) -> Summary:
    columns = [name for name in source.columns() if name not in field_map.values()]
    own = [name for name in columns if name not in FIELDS and name not in left_out]
    fields = (*FIELDS, *(name for name in own if not name.startswith("_")))
    plan = replace(plan, kept=fields)
    values = _list_values(plan)
    notices = tuple(f"{name}: not shown, its values are of several types" for name in left_out)
    chunks: Iterator[Chunk] = iter(source.chunks(Wanted(tuple(dict.fromkeys(fields)), field_map)))
    if "trace" in (*columns, *field_map):
        chunks = map(Exact, chunks)
    wanted = [*map(name_kept, fields), *values.values()]

    def index_rows(batches: Iterable[MeasuredBatch], folder: Path, seen: SeenColumns) -> Summary:
        narrow: dict[str, str] | None = None
        for batch in batches:
            for row in batch.bad:  # a field that no metric reads is dropped, instead of its rows
                if (name := row.problem.partition(":")[0]) in own:
                    raise MixedTypes(name)
            seen.add_bad(batch.bad)
            if not batch.rows.height:
                continue
            records = batch.rows.select(pl.col(name_kept(name)).alias(name) for name in fields)
            narrow = {**_find_short_texts(records), **values} if narrow is None else narrow
            measured = batch.rows.select(pl.col(own).alias(name) for name, own in narrow.items())
            part = len(seen.parts)
            _write_part(records, folder / name_part("records", part), batch_rows=FEW_ROWS)
            _write_part(measured, folder / name_part("values", part))
            seen.add(records, measured)
            progress(batch.done, Index(folder, seen.freeze(list(fields), notices)))
        return seen.freeze(list(fields), notices)

    first = next(chunks, None)
    if first is not None and first.done < 1:  # a large source: its first rows are shown at once
        (folder / FIRST_ROWS).mkdir(parents=True, exist_ok=True, mode=0o700)
        head = measure_chunk(cut_chunk(first), plan, wanted)
        index_rows([replace(head, done=0.0)], folder / FIRST_ROWS, SeenColumns())
    every = chunks if first is None else chain([first], chunks)
    return index_rows(measure_batches(every, plan, columns=wanted), folder, SeenColumns())


def _find_short_texts(records: pl.DataFrame) -> dict[str, str]:
    """Return the text fields short enough to filter by, judged by the first part."""
    texts = (name for name in records.columns if name not in LONG_TEXTS)
    return {
        name: name_kept(name)
        for name in texts
        if records[name].dtype != pl.String or _average_length(records[name]) <= _SHORT
    }


def _average_length(texts: pl.Series) -> float:
    found = texts.alias("text").str.len_chars().mean()  # ^x$ would be a pattern
    return found if isinstance(found, float) else 0.0


def write_orders(folder: Path) -> None:
    """Sort a finished index by each narrow column once, so that no page has to."""
    index = Index.open(folder)
    for name in index.summary.values:
        order = sort_rows(index.read_column(name)).to_frame("row")
        with stage_file(folder / name_order(name)) as beside:
            order.write_ipc(beside)


def _write_part(rows: pl.DataFrame, path: Path, *, batch_rows: int | None = None) -> None:
    """Write the rows as an Arrow file, without the columns that have no value."""
    empty = (column.name for column in rows.iter_columns() if column.null_count() == len(column))
    lean = rows.with_columns(pl.lit(None).alias(name) for name in empty)
    with stage_file(path) as beside:  # two processes that build the same index write the same
        lean.write_ipc(beside, record_batch_size=batch_rows)


def _list_values(plan: Plan) -> dict[str, str]:
    """Return the narrow columns, and where each comes from."""
    listed = {
        feature.label: feature.name
        for feature in plan.features
        if feature.listed and (feature.dtype.is_numeric() or feature.dtype == pl.Boolean)
    }
    return {**listed, FAILED_CALL: FAILED}
