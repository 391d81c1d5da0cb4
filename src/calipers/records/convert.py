"""Any log as one table of records: `read` gives it in memory, `convert_data` writes a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl

from calipers.records.batch import (
    CHECK,
    Batch,
    Chunk,
    Source,
    UnusualRows,
    Wanted,
    count_bad,
    format_nulled,
    refuse_bad,
)
from calipers.records.completeness import explain_missing
from calipers.records.derived_fields import list_derivable
from calipers.records.fields import FIELDS, PROB_CORRECT, BadValue, find_field
from calipers.records.lakehouse import is_lakehouse, open_table
from calipers.records.logs.log import log_notices, read_figures
from calipers.records.readers.lines import JsonLines
from calipers.records.readers.tables import RowList
from calipers.records.reading_options import ReadingOptions, declare_keywords
from calipers.records.rows import list_confidences, list_field_kinds, settle_types
from calipers.records.sinks import check_table_place, open_sinks
from calipers.records.sources import load_spark_sources, open_sources
from calipers.support.options import list_own_options, read_keywords
from calipers.support.printing import Tabular
from calipers.support.strict_json import to_plain_fields

if TYPE_CHECKING:
    from calipers.support.keywords import ReadKeywords

Progress = Callable[[float], None]

_READ_AS_STRUCT = "trace"  # the fast reader does not keep its text


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted(Tabular):
    """The file that was written; as a table, its records."""

    path: Path
    records: int
    skipped: int
    columns: tuple[str, ...]
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what was written as Python values."""
        return to_plain_fields(self) | {"path": str(self.path)}

    def to_polars(self) -> pl.DataFrame:
        """Return the records that were written."""
        if is_lakehouse(self.path):
            return open_table(str(self.path)).frame()
        is_parquet = self.path.suffix == ".parquet"
        return pl.read_parquet(self.path) if is_parquet else pl.read_ndjson(self.path)


def convert_data(
    data: Any, output: Path, asked: ReadingOptions, progress: Progress = lambda _: None
) -> Converted:
    """Write the records in `data` to a .parquet or .jsonl file, all their fields kept."""
    check_table_place(output, "-o", lakehouse=True)
    sources = open_whole(data)
    notices = (*log_notices(sources), *_note_figures(sources), *_note_unfinished(sources))
    if asked.engine == "spark":
        spark = load_spark_sources()
        sources = [spark.move_to_spark(source) for source in sources]
    columns = list(
        dict.fromkeys(name for given in sources for name in list_fields(given, asked.map))
    )
    records = skipped = nulled = 0
    with open_sinks(
        samples=output, bad_rows=asked.bad_rows, skip_bad=asked.on_bad == "skip", progress=progress
    ) as sinks:
        types = find_types(sources, asked.map)
        for place, source in enumerate(sources):
            read = read_batches(source, asked.map, types, nulls_outside=asked.on_bad == "null")
            for batch, done in read:
                sinks.take_bad_rows(batch.bad)
                missing = [name for name in columns if name not in batch.frame.columns]
                frame = batch.frame.with_columns(_make_nulls(name) for name in missing)
                sinks.take_samples(frame[columns])  # by these very names: ^x$ is no pattern
                records += batch.frame.height
                skipped += count_bad(batch.bad)[0]
                nulled += count_bad(batch.bad)[1]
                sinks.report_progress((place + done) / len(sources))
    notices = (*notices, *([format_nulled(nulled)] if nulled else ()))
    return Converted(
        path=output, records=records, skipped=skipped, columns=tuple(columns), notices=notices
    )


def _note_figures(sources: Sequence[Source]) -> Iterator[str]:
    """Yield which logs state figures of their own: those are of no record, so none is written."""
    stating = [source.name for source in sources if any(True for _ in read_figures(source))]
    if stating:
        more = f" and {len(stating) - 1:,} more" if stating[1:] else ""
        yield (
            f"{stating[0]}{more}: figures that the log states of itself are not written: "
            "score and gate compare with them only where they read the log"
        )


def _note_unfinished(sources: Sequence[Source]) -> Iterator[str]:
    """Yield what the runs that wrote the files have not done, which the records do not tell."""
    for source in sources:
        for lack in explain_missing(Path(source.path)) if source.path is not None else ():
            yield f"{source.name}: {lack}: a gate knows of it only where it reads that file"


def open_whole(data: Any) -> list[Source]:
    """Return the sources of `data`, which know all their fields, also those that come late."""
    return look_through(open_sources(data))


def look_through(sources: list[Source]) -> list[Source]:
    """Return the sources, which then know all their fields, also those that come late."""
    for source in sources:
        if isinstance(source, JsonLines | RowList):
            source.look_through()
    return sources


def _make_nulls(name: str) -> pl.Expr:
    is_typed = name in FIELDS or name.startswith(f"{PROB_CORRECT}.")
    dtype = find_field(name).dtype if is_typed else pl.Null()
    return pl.lit(None, dtype=dtype).alias(name)


def find_types(
    sources: Sequence[Source], field_map: Mapping[str, str]
) -> Mapping[str, pl.DataType] | None:
    """Return the types that fields of any scalar have in all the sources."""
    names = dict.fromkeys(name for source in sources for name in list_fields(source, field_map))
    fields = tuple(names)  # as keys: whole numbers that a double does not hold stay what they are
    return settle_types(sources, Wanted(fields, field_map, keys=fields)).types


def read_batches(
    source: Source,
    field_map: Mapping[str, str],
    types: Mapping[str, pl.DataType] | None = None,
    *,
    nulls_outside: bool = False,
) -> Iterator[tuple[Batch, float]]:
    """Yield the source's records with all their fields, and the share read so far."""
    fields = list_fields(source, field_map)
    wanted = Wanted(fields, field_map, types=types, nulls_outside=nulls_outside)
    exact = _READ_AS_STRUCT in wanted.fields or not wanted.fields  # so that bad rows are named
    for chunk in source.chunks(wanted):
        yield (chunk.exact() if exact else read_chunk(chunk)), chunk.done


def list_fields(source: Source, field_map: Mapping[str, str]) -> tuple[str, ...]:
    """Return the contract's fields first, then the source's own."""
    columns = source.columns()
    others = [name for name in columns if name not in field_map.values()]
    derived = {name for name in list_derivable(columns) if name not in field_map}
    known = (name for name in FIELDS if name in columns or name in derived)
    fields = dict.fromkeys((*field_map, *known, *others))
    if names := list_confidences(source, field_map):
        if not list_field_kinds(source).get(field_map.get(PROB_CORRECT, PROB_CORRECT)):
            fields.pop(PROB_CORRECT, None)
        fields |= dict.fromkeys(f"{PROB_CORRECT}.{name}" for name in names)
    return tuple(fields)


def read_chunk(chunk: Chunk) -> Batch:
    """Read a chunk by the fast reader if its checks hold, else row by row."""
    try:
        records = chunk.lazy().collect(engine="in-memory")
    except (pl.exceptions.PolarsError, UnusualRows, BadValue):
        return chunk.exact()
    checks = [name for name in records.columns if name.startswith(CHECK)]
    return (
        Batch(records.drop(checks)) if chunk.is_trusted(records.select(checks)) else chunk.exact()
    )


_OF_READ = list_own_options("read", ReadingOptions)


@declare_keywords("read", _OF_READ, _OF_READ)
def read(data: Any, **options: Unpack[ReadKeywords]) -> pl.DataFrame:
    """Read records as a Polars frame: checked, in the record's types, all fields kept.

    Args:
        data: Records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        A row per record.

    >>> read([{"question": "2 + 2", "answer": 4}], map={"input": "question"}).row(0, named=True)
    {'input': '2 + 2', 'answer': '4'}
    """
    asked = read_keywords("read", ReadingOptions, options)
    frames = []
    sources = open_whole(data)
    types = find_types(sources, asked.map)
    for opened in sources:
        for batch, _ in read_batches(opened, asked.map, types):
            refuse_bad(batch.bad)
            frames.append(batch.frame)
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()
