"""Any log as one table of records: what `convert` writes and `read` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from calipers.records.completing import list_derivable
from calipers.records.fields import FIELDS, PROB_CORRECT, BadValue, find_field
from calipers.records.jsonl import JsonLines
from calipers.records.kinds import list_confidences, list_kinds
from calipers.records.logs import log_notices
from calipers.records.options import ReadingOptions
from calipers.records.sinks import check_table_place, open_sinks
from calipers.records.sources import CHECK, Batch, Chunk, Source, UnusualRows, Wanted, open_sources
from calipers.records.tables import Rows
from calipers.support.quick_dataclasses import dataclass
from calipers.support.strict_json import to_plain_fields
from calipers.support.tabular import Tabular

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
        is_parquet = self.path.suffix == ".parquet"
        return pl.read_parquet(self.path) if is_parquet else pl.read_ndjson(self.path)


def convert_data(
    data: Any, output: Path, asked: ReadingOptions, progress: Progress = lambda _: None
) -> Converted:
    """Write the records in `data` to a .parquet or .jsonl file, all their fields kept."""
    check_table_place(output, "-o")
    sources = open_whole(data)
    notices = tuple(log_notices(sources))
    if asked.engine == "spark":
        from calipers.records.spark.table import move_to_spark  # noqa: PLC0415 (an extra)

        sources = [move_to_spark(source) for source in sources]
    columns = list(dict.fromkeys(name for each in sources for name in list_fields(each, asked.map)))
    records = skipped = 0
    with open_sinks(
        samples=output, bad_rows=asked.bad_rows, skip_bad=asked.on_bad == "skip", progress=progress
    ) as sinks:
        for place, source in enumerate(sources):
            for batch, done in read_batches(source, asked.map):
                sinks.take_bad_rows(batch.bad)
                missing = [name for name in columns if name not in batch.frame.columns]
                sinks.take_samples(
                    batch.frame.with_columns(_make_nulls(name) for name in missing).select(columns)
                )
                records += batch.frame.height
                skipped += len(batch.bad)
                sinks.report_progress((place + done) / len(sources))
    return Converted(
        path=output, records=records, skipped=skipped, columns=tuple(columns), notices=notices
    )


def open_whole(data: Any) -> list[Source]:
    """Return the sources of `data`, which know all their fields, also those that come late."""
    return look_through(open_sources(data))


def look_through(sources: list[Source]) -> list[Source]:
    """Return the sources, which then know all their fields, also those that come late."""
    for source in sources:
        if isinstance(source, JsonLines | Rows):
            source.look_through()
    return sources


def _make_nulls(name: str) -> pl.Expr:
    is_typed = name in FIELDS or name.startswith(f"{PROB_CORRECT}.")
    dtype = find_field(name).dtype if is_typed else pl.Null()
    return pl.lit(None, dtype=dtype).alias(name)


def read_batches(source: Source, field_map: Mapping[str, str]) -> Iterator[tuple[Batch, float]]:
    """Yield the source's records with all their fields, and the share read so far."""
    wanted = Wanted(list_fields(source, field_map), field_map)
    exact = _READ_AS_STRUCT in wanted.fields or not wanted.fields  # so that bad rows are named
    for chunk in source.chunks(wanted):
        yield (chunk.exact() if exact else read_chunk(chunk)), chunk.done


def list_fields(source: Source, field_map: Mapping[str, str]) -> tuple[str, ...]:
    """Return the contract's fields first, then the source's own."""
    columns = source.columns()
    others = [name for name in columns if name not in field_map.values()]
    derived = {name for name in list_derivable(columns) if name not in field_map}
    known = (name for name in FIELDS if name in columns or name in derived)
    found = dict.fromkeys((*field_map, *known, *others))
    if names := list_confidences(source, field_map):
        if not list_kinds(source).get(field_map.get(PROB_CORRECT, PROB_CORRECT)):
            found.pop(PROB_CORRECT, None)
        found |= dict.fromkeys(f"{PROB_CORRECT}.{name}" for name in names)
    return tuple(found)


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
