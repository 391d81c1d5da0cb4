"""One file read for an examination: its format, its fields, and the facts of its records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import polars as pl

from calipers.comparisons.doctor.facts import FAILED, NEEDED, Collected, Problem, make_plan, narrow
from calipers.comparisons.doctor.results import HeldField, HeldFile
from calipers.records.batch import BadRow, Wanted
from calipers.records.completing import SYNONYMS, TRACE, TRACE_PARTS, list_derivable
from calipers.records.convert import list_fields, look_through, read_chunk
from calipers.records.csv_file import Csv
from calipers.records.fields import FIELDS, Kind
from calipers.records.foreign import recognize_tool, suggest_fields
from calipers.records.json_values import JsonArray, WrappedRecords
from calipers.records.jsonl import JsonLines, PipedJsonLines
from calipers.records.logs import Log
from calipers.records.sources import Source
from calipers.records.tables import Rows
from calipers.support.errors import DataError
from calipers.support.quick_dataclasses import dataclass

_FORMATS: tuple[tuple[type, str], ...] = (
    (WrappedRecords, "a JSON object around a list of records"),
    (JsonArray, "a list of JSON objects"),
    (PipedJsonLines, "JSON lines, piped"),
    (JsonLines, "JSON lines"),
    (Csv, "CSV"),
    (Rows, "records in memory"),
)
_EXAMPLES = 3
_CLOSE = 0.9  # a misspelt name, not one that holds another
_UNNAMED = "(no model)"
_VARIED = ("input", "id", "cot")  # fields whose values are rarely all alike
_LEAST_VARIED = 0.01  # of the rows
_SEVERAL = 20  # rows to tell
_PLACE = re.compile(r"^([\w.]+): ")


@dataclass
class Census:
    """What is known of a file after reading it: fields, records, and bad rows."""

    source: Source
    map: Mapping[str, str]
    records: int = 0
    errors: int = 0
    bad: dict[str, list[BadRow]] = field(default_factory=dict)  # the first rows, by what is wrong
    bad_counts: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)  # records that have each field
    fits: dict[str, str] = field(default_factory=dict)  # columns that look like a field

    def read(self, facts: Collected, place: int) -> None:
        """Read all records once, after a look through the file for its fields.

        Raises:
            CalipersError: The file cannot be read any further, or none of its rows can.
        """
        look_through([self.source])
        plan = make_plan()
        columns = [each for each in list_fields(self.source, self.map) if each != TRACE]
        wanted = Wanted(tuple(dict.fromkeys((*plan.fields, *NEEDED, *columns))), self.map)
        suggested = suggest_fields(columns, close=_CLOSE)
        if "judge" in columns:  # a judge's reasoning is not the system's
            suggested.pop("cot", None)
        told = {"model", "tier"} & {*columns}
        row = 1
        for chunk in self.source.chunks(wanted):
            batch = read_chunk(chunk)
            self._note_bad(batch.bad)
            frame = batch.frame
            if frame.height:
                if not self.records:
                    self.fits = {f: c for f, c in suggested.items() if _may_be(frame[c], f)}
                for each in columns:
                    self.held[each] += frame.height - frame[each].null_count()
                name = _UNNAMED if told else Path(self.source.name).stem
                rows = narrow(frame, plan, file=place, first_row=row, name=name)
                self.errors += int(rows[FAILED].sum())
                facts.add(rows)
            self.records += frame.height
            row += frame.height + len(batch.bad)
        if self.bad and not self.records:
            problem = next(self.list_problems()).problem
            raise DataError(
                f"{self.source.name}: no row can be read, the first says: {problem}",
                fix="a record is a JSON object per line, or a row of a table",
            )

    def _note_bad(self, rows: Sequence[BadRow]) -> None:
        for each in rows:
            found = _PLACE.match(each.problem)
            key = found[1] if found else "row"
            self.bad_counts[key] += 1
            if self.bad_counts[key] <= _EXAMPLES:
                self.bad.setdefault(key, []).append(each)

    def list_problems(self) -> Iterator[Problem]:
        """Yield what is wrong with bad rows, a field at a time."""
        for key, rows in self.bad.items():
            places = tuple(f"{each.source}:{each.row}" for each in rows)
            yield Problem(problem=rows[0].problem, count=self.bad_counts[key], examples=places)

    @property
    def present(self) -> frozenset[str]:
        """The fields of the record that any record has."""
        found = {name for name, count in self.held.items() if count}
        columns = self.source.columns()
        if TRACE in columns or not set(TRACE_PARTS).isdisjoint(columns):
            found.add(TRACE)
        return frozenset(found | {name for name in list_derivable(columns) if name != TRACE})

    def file(self) -> HeldFile:
        """Return what the file holds."""
        theirs = {column: name for name, column in self.map.items()}
        like = {column: name for name, column in self.fits.items()}
        others = {other: name for name, other in SYNONYMS.items()}
        columns = self.source.columns()
        fields = tuple(
            HeldField(
                name=column,
                field=theirs.get(column)
                or (column if column in FIELDS else others.get(column))
                or (TRACE if column in TRACE_PARTS else None),
                records=self.records if column == TRACE else self.held[theirs.get(column, column)],
                map_to=like.get(column),
            )
            for column in columns
        )
        return HeldFile(
            path=self.source.name,
            format=_describe_format(self.source),
            records=self.records,
            errors=self.errors,
            bad_rows=self.bad_counts.total(),
            fields=fields,
            tool=recognize_tool(columns),
        )


def _describe_format(source: Source) -> str:
    suffix = Path(source.name).suffix
    packed = f", compressed ({suffix[1:]})" if suffix in (".gz", ".zst", ".zstd") else ""
    if isinstance(source, Log):
        return f"a log of {source.format.name}{packed}"
    known = (words for kind, words in _FORMATS if isinstance(source, kind))
    return next(known, "a table" if source.path is None else "Parquet") + packed


def _may_be(values: pl.Series, name: str) -> bool:
    """Say whether a column's values could be those of a field."""
    values, of = values.drop_nulls(), FIELDS[name]
    if not len(values):
        return False
    if of.kind is Kind.BOOLEAN:
        return values.dtype == pl.Boolean
    if of.kind is Kind.NUMBER:
        outside = of.mark_outside(pl.col("v").cast(pl.Float64)).any()
        return values.dtype.is_numeric() and not values.to_frame("v").select(outside).item()
    texts = values.cast(pl.String)
    nested = texts.str.contains(r"^\s*[\[{]").sum() * 2 > len(texts)
    if of.kind in (Kind.NAMES, Kind.NESTED) or nested:
        return of.kind in (Kind.NAMES, Kind.NESTED) and nested
    is_told = name not in _VARIED or len(texts) < _SEVERAL
    return is_told or texts.n_unique() >= max(2, _LEAST_VARIED * len(texts))
