"""How an index is built: the source is read once, part by part, by the readers that `score` has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path

import polars as pl

from calipers.dashboard.cache_folder import META
from calipers.dashboard.chunks import Exact, cut_chunk
from calipers.dashboard.index import LONG_TEXTS, Index, Summary, name_order, name_part, sort_rows
from calipers.engines.measuring import MeasuredBatch, measure_chunk
from calipers.engines.plan import FAILED, Plan, name_kept
from calipers.engines.reading import measure_batches
from calipers.metrics.declare.declaration import Feature
from calipers.metrics.declare.settings import Settings
from calipers.metrics.text.similarity import semantic_similarity
from calipers.records.fields import FIELDS
from calipers.records.sources import BadRow, Chunk, Source, Wanted, open_sources
from calipers.scores.options import Options
from calipers.support.quick_dataclasses import dataclass
from calipers.support.whole_files import stage_file, write_whole

SYSTEMS = ("model", "tier")  # the fields that tell systems apart
MOST_SYSTEMS = 50  # that a choice has room for
FEW_ROWS = 1024  # that are read at once, so that a page is read without much beside it
FIRST_ROWS = "first"  # the folder of an index of the first rows alone
_SHORT = 80  # characters of a text that is a column like others
_PROBLEMS = 20
FAILED_CALL = "failed"

Progress = Callable[[float, Index], None]


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
class Seen:
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


def build(
    path: Path,
    folder: Path,
    progress: Progress,
    field_map: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> None:
    """Write the index of a source into a folder; `progress` may look at what is there so far.

    The index is complete when META exists. `write_orders` then sorts its columns ahead of use.
    """
    source = open_sources(path)[0]
    known = set(source.columns())
    names = {ours: theirs for ours, theirs in (field_map or {}).items() if theirs in known}
    settings = settings or Settings()
    if settings.checks is not None:
        columns = tuple(sorted(known - {*names.values()}))
        settings = replace(settings, checks=settings.checks.restrict(columns))
    plan = ViewOptions(settings=settings).plan()
    left_out: list[str] = []
    while True:
        try:
            summary = _build(source, folder, names, plan, tuple(left_out), progress)
        except MixedTypes as found:
            left_out += found.args
        else:
            break
    write_whole(folder / META, summary.to_json())


def _build(
    source: Source,
    folder: Path,
    field_map: Mapping[str, str],
    plan: Plan,
    left_out: tuple[str, ...],
    progress: Progress,
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

    def index_rows(batches: Iterable[MeasuredBatch], folder: Path, seen: Seen) -> Summary:
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
            _write(records, folder / name_part("records", part), batch_rows=FEW_ROWS)
            _write(measured, folder / name_part("values", part))
            seen.add(records, measured)
            progress(batch.done, Index(folder, seen.freeze(list(fields), notices)))
        return seen.freeze(list(fields), notices)

    first = next(chunks, None)
    if first is not None and first.done < 1:  # a large source: its first rows are shown at once
        (folder / FIRST_ROWS).mkdir(parents=True, exist_ok=True, mode=0o700)
        head = measure_chunk(cut_chunk(first), plan, wanted)
        index_rows([replace(head, done=0.0)], folder / FIRST_ROWS, Seen())
    every = chunks if first is None else chain([first], chunks)
    return index_rows(measure_batches(every, plan, columns=wanted), folder, Seen())


def _find_short_texts(records: pl.DataFrame) -> dict[str, str]:
    """Return the text fields short enough to filter by, judged by the first part."""
    texts = (name for name in records.columns if name not in LONG_TEXTS)
    return {
        name: name_kept(name)
        for name in texts
        if records[name].dtype != pl.String or _average_length(records[name]) <= _SHORT
    }


def _average_length(texts: pl.Series) -> float:
    found = texts.str.len_chars().mean()
    return found if isinstance(found, float) else 0.0


def write_orders(folder: Path) -> None:
    """Sort a finished index by each narrow column once, so that no page has to."""
    index = Index.open(folder)
    for name in index.summary.values:
        order = sort_rows(index.read_column(name)).to_frame("row")
        with stage_file(folder / name_order(name)) as beside:
            order.write_ipc(beside)


def _write(rows: pl.DataFrame, path: Path, *, batch_rows: int | None = None) -> None:
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
