"""Sources that Spark reads. Workers make chunks of the rows; on the driver they are streamed.

Of a table in files, workers are told which rows are theirs, and read these themselves, as is done
on one machine: rows that Spark reads pass through Java one by one, which costs more than measuring
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession

from calipers.engines.spark.session import (
    SPARK_ERRORS,
    collect_parts,
    explain_executors,
    find_last_line,
    start_session,
)
from calipers.records.batch import Chunk, DecodedChunk, Source, Wanted
from calipers.records.columns import conform_columns
from calipers.records.derived_fields import list_source_names
from calipers.records.fields import BadValue
from calipers.records.lakehouse import LakehouseTable
from calipers.records.readers.bytestream import Block
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.line_chunk import JsonLinesChunk
from calipers.records.readers.lines import ConvertedLines, JsonLines, PipedLines
from calipers.records.readers.tables import (
    CHUNK_ROWS,
    Parquet,
    ParquetFolder,
    RowList,
    SourceTable,
)
from calipers.records.rows import Kinds, choose_types, find_kinds, load_row
from calipers.support.errors import DataError, UsageError

MakeChunks = Callable[[Iterable[Any]], Iterator[Chunk]]  # of Arrow batches, in a worker
OpenFrame = Callable[[SparkSession], DataFrame]

TABLE = "table:"
_LINES = (".jsonl", ".ndjson", ".json")
_SNIFF_ROWS = 200
_SLICE_ROWS = 250_000
_PARTITION_BYTES = 64 << 20  # of files, to be read by one task
_CLASSIC = "pyspark.sql.classic"  # frames whose plan says how much data there is
_USUAL_CORES = 8  # which Spark Connect does not tell
_KINDS: dict[str, set[type]] = {
    "boolean": {bool},
    **{name: {float} for name in ("tinyint", "smallint", "int", "bigint", "float", "double")},
}


class SparkSource(ABC):
    """Rows that Spark reads, and how a worker makes a chunk of some of them."""

    is_of_spark = True

    def __init__(self, name: str, open_frame: OpenFrame, origin: Source | None = None) -> None:
        self.name = name
        self.origin = origin  # the same rows, read here
        self.path = None if origin is None else origin.path
        self._open = open_frame

    @cached_property
    def frame(self) -> DataFrame:
        """The rows, with all their columns.

        Raises:
            DataError: There is no such table or file, or Spark cannot read it.
        """
        session = start_session()
        try:
            return self._open(session)
        except DataError:  # of a file that cannot be read here either
            raise
        except Exception as error:  # Java's error itself, or PySpark's, depending on the connection
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise UsageError(
                    f"{self.name}: this Spark session has no reader for such tables",
                    fix="start it with the format's package (spark.jars.packages), "
                    "or use --engine polars",
                ) from error
            raise DataError(
                f"{self.name}: Spark cannot read it: {str(error).splitlines()[0][:300]}",
                fix="check the name, and that the session has access to it",
            ) from error

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names that the data has."""

    @abstractmethod
    def select(self, wanted: Wanted) -> DataFrame:
        """Return the rows with the columns that hold what is wanted."""

    def select_finely(self, wanted: Wanted) -> DataFrame:
        """Return them in partitions that the driver can hold one by one."""
        return self.select(wanted)

    @abstractmethod
    def make_chunks(self, wanted: Wanted) -> MakeChunks:
        """Return what makes chunks of the rows selected, in a worker too."""

    def estimate_bytes(self, selected: DataFrame) -> int | None:
        """Return about how much is read, as Spark plans it; None where it does not tell."""
        if not type(selected).__module__.startswith(_CLASSIC):
            return None
        plan = selected._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 (no public way tells)
        return int(str(plan.stats().sizeInBytes()))

    def find_kinds(self, wanted: Wanted) -> Kinds:
        """Return the kinds of values in each wanted field of any scalar, as far as known here."""
        if self.origin is not None and hasattr(self.origin, "find_kinds"):
            kinds: Kinds = self.origin.find_kinds(wanted)
            return kinds
        return self._look_up_kinds(wanted)

    @abstractmethod
    def _look_up_kinds(self, wanted: Wanted) -> Kinds:
        """Return what the schema or the first rows say."""

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the rows here, in order."""
        try:
            yield from self.make_chunks(wanted)(collect_parts(self.select(wanted)))
        except SPARK_ERRORS as error:
            raise explain_executors(error) or DataError(
                f"{self.name}: Spark cannot read it: {find_last_line(error)}",
                fix="check that its files are whole and can be read by the cluster",
            ) from error


class SparkTable(SparkSource):
    """Columns with types of their own; those of a CSV file are parsed."""

    def __init__(
        self, name: str, open_frame: OpenFrame, origin: Source | None = None, *, parse: bool = False
    ) -> None:
        super().__init__(name, open_frame, origin)
        self._parse = parse

    def columns(self) -> list[str]:
        """Return the columns' names."""
        return list(self.frame.columns)

    def select(self, wanted: Wanted) -> DataFrame:
        """Return the rows with the wanted columns, so that Spark reads no others."""
        present = wanted.columns(set(self.columns()), list_source_names(wanted))
        names = (f"`{name.replace('`', '``')}`" for name in present)
        return self.frame.select(*names) if present else self.frame

    def make_chunks(self, wanted: Wanted) -> MakeChunks:
        """Return what makes chunks of rows."""
        make = partial(_make_rows_chunk, name=self.name, wanted=wanted, parse=self._parse)
        return partial(_make_each, make=make)

    def _look_up_kinds(self, wanted: Wanted) -> Kinds:
        types = dict(self.frame.dtypes)
        typed = {name: theirs for name, theirs in wanted.scalars.items() if theirs in types}
        return {name: _KINDS.get(types[theirs], {str}) for name, theirs in typed.items()}


class SparkLines(SparkSource):
    """JSON lines."""

    def columns(self) -> list[str]:
        """Return the keys of the first rows."""
        return list(dict.fromkeys(key for row in self._read_first_rows() for key in row))

    def select(self, wanted: Wanted) -> DataFrame:
        """Return a line per row."""
        if isinstance(self.origin, ConvertedLines):
            lines = self.origin.as_lines(wanted)
        elif isinstance(self.origin, RowList):
            lines = self.origin.as_lines()
        else:
            return self.frame
        return start_session().createDataFrame([(line,) for line in lines], "value string")

    def make_chunks(self, wanted: Wanted) -> MakeChunks:
        """Return what makes chunks of lines."""
        scalars = wanted.types
        if scalars is None:
            scalars = choose_types(self.find_kinds(wanted), wanted)
        make = partial(_make_lines_chunk, name=self.name, wanted=wanted, scalars=scalars)
        return partial(_make_each, make=make)

    def _look_up_kinds(self, wanted: Wanted) -> Kinds:
        return find_kinds(self._read_first_rows(), wanted)

    def _read_first_rows(self) -> list[Mapping[str, Any]]:
        if isinstance(self.origin, JsonLines | RowList):
            return self.origin.read_first_rows()
        return self._head

    @cached_property
    def _head(self) -> list[Mapping[str, Any]]:
        rows = (load_row(row[0].encode())[1] for row in self.frame.limit(_SNIFF_ROWS).collect())
        return [row for row in rows if not isinstance(row, BadValue)]


def _make_each(batches: Iterable[Any], *, make: Callable[[pl.DataFrame], Chunk]) -> Iterator[Chunk]:
    return map(make, _gather_batches(batches))


def _gather_batches(batches: Iterable[Any]) -> Iterator[pl.DataFrame]:
    """Yield Arrow batches as frames, small ones put together."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        held.append(pl.DataFrame(batch))
        if sum(rows.height for rows in held) >= CHUNK_ROWS:
            yield pl.concat(held)
            held = []
    if held:
        yield pl.concat(held)


def _make_lines_chunk(
    rows: pl.DataFrame, *, name: str, wanted: Wanted, scalars: Mapping[str, pl.DataType]
) -> Chunk:
    data = rows.to_series().str.join("\n").cast(pl.Binary).item() or b""
    return JsonLinesChunk(Block(data, 0), name, wanted, scalars)


def _make_rows_chunk(rows: pl.DataFrame, *, name: str, wanted: Wanted, parse: bool) -> Chunk:
    return DecodedChunk(partial(conform_columns, rows, wanted, name, 1, parse=parse), 0.0)


@dataclass(frozen=True)
class _Slice:
    """Some rows of one of the tables that a source is."""

    table: int
    rows: range


class SparkFiles(SparkSource):
    """Tables in files, whose rows the workers read themselves."""

    origin: SourceTable | ParquetFolder

    def __init__(self, origin: SourceTable | ParquetFolder) -> None:
        super().__init__(origin.name, self._range_slices, origin)
        self._tables: Sequence[SourceTable] = (
            [origin] if isinstance(origin, SourceTable) else origin.list_tables()
        )

    @cached_property
    def _slices(self) -> list[_Slice]:
        return [
            _Slice(number, range(start, min(start + _SLICE_ROWS, height)))
            for number, table in enumerate(self._tables)
            for height in [table.height()]
            for start in range(0, height, _SLICE_ROWS)
        ]

    def _range_slices(self, session: SparkSession) -> DataFrame:
        """Return a row per slice, in order, in as many partitions as are worth a task."""
        most = max(2 * count_cores(session), self.estimate_bytes() // _PARTITION_BYTES)
        slices = len(self._slices)
        return session.range(0, slices, 1, max(1, min(slices, most)))

    def columns(self) -> list[str]:
        """Return the columns' names."""
        return self.origin.columns()

    def select(self, wanted: Wanted) -> DataFrame:
        """Return the numbers of the slices."""
        del wanted
        return self.frame

    def select_finely(self, wanted: Wanted) -> DataFrame:
        """Return the numbers of the slices, a partition each."""
        del wanted
        slices = len(self._slices)
        return start_session().range(0, slices, 1, max(slices, 1))

    def make_chunks(self, wanted: Wanted) -> MakeChunks:
        """Return what reads slices."""
        if wanted.types is None:
            wanted = replace(wanted, types=choose_types(self.find_kinds(wanted), wanted))
        return partial(_read_slices, slices=self._slices, tables=self._tables, wanted=wanted)

    def chunks(self, wanted: Wanted) -> Iterator[Chunk]:
        """Yield the rows here, in order."""
        return self.origin.chunks(wanted)

    def estimate_bytes(self, selected: DataFrame | None = None) -> int:
        """Return the size of the files."""
        del selected
        return sum(table.count_bytes() for table in self._tables)

    def _look_up_kinds(self, wanted: Wanted) -> Kinds:
        return self.origin.find_kinds(wanted)


def _read_slices(
    batches: Iterable[Any],
    *,
    slices: Sequence[_Slice],
    tables: Sequence[SourceTable],
    wanted: Wanted,
) -> Iterator[Chunk]:
    for batch in batches:
        for [number] in pl.DataFrame(batch).iter_rows():
            of_slice = slices[number]
            yield from tables[of_slice.table].chunks(wanted, of_slice.rows)


def count_cores(session: SparkSession) -> int:
    """Return how many tasks run at the same time, or a usual number where Spark does not tell."""
    context = getattr(session, "_sc", None)
    return _USUAL_CORES if context is None else int(context.defaultParallelism)


def open_frame(frame: Any) -> SparkSource:
    """Return the source of a Spark data frame, also of one of pandas on Spark."""
    is_pandas = type(frame).__module__.startswith("pyspark.pandas")
    native = frame.to_spark() if is_pandas else frame
    return SparkTable("<table>", lambda _: native)


def open_address(text: str) -> SparkSource:
    """Return the source at `table:NAME`, or at an address that Spark alone reads."""
    if text.startswith(TABLE):
        name = text.removeprefix(TABLE)
        return SparkTable(text, lambda spark: spark.table(name))
    suffixes = [suffix for suffix in Path(text).suffixes if suffix not in (".gz", ".zst")]
    if suffixes and suffixes[-1] in _LINES:
        return SparkLines(text, partial(_read_text, text))
    if suffixes and suffixes[-1] == ".csv":
        return SparkTable(text, partial(_read_csv, text), parse=True)
    return SparkTable(text, lambda spark: spark.read.parquet(text))


def move_to_spark(source: Source) -> SparkSource:
    """Return a source whose rows Spark reads, or is given, instead of this machine.

    Raises:
        UsageError: It is standard input, which Spark cannot read.
    """
    name = source.name
    if isinstance(source, SparkSource):
        return source
    if isinstance(source, PipedLines):
        raise UsageError("--engine spark cannot read standard input", fix="name a file or folder")
    if isinstance(source, JsonLines | RowList):
        return SparkLines(name, partial(_read_text, name), source)
    if isinstance(source, Csv):
        read = partial(_read_csv, name, separator=source.separator)
        return SparkTable(name, read, source, parse=True)
    if isinstance(source, Parquet | ParquetFolder | LakehouseTable):
        return SparkFiles(source)
    if isinstance(source, SourceTable) and name == "<table>":
        whole = source.frame
        return SparkTable(name, lambda spark: spark.createDataFrame(whole().to_arrow()), source)
    return SparkTable(name, lambda spark: spark.read.parquet(name), source)


def _read_text(name: str, spark: SparkSession) -> DataFrame:
    return spark.read.text(name, lineSep="\n")


def _read_csv(name: str, spark: SparkSession, separator: str = ",") -> DataFrame:
    return spark.read.csv(name, header=True, sep=separator, escape='"', multiLine=True)
