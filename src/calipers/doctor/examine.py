"""`calipers.doctor`: read each file once, look for what can be wrong, say what to run next.

`KINDS` lists every kind of finding, in the order in which they are shown. A kind is a function that
yields what looks wrong in the facts, mostly once per system. A false alarm is worse than silence:
it yields nothing where there are few records, and nothing that chance or a usual way to work
explains.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl

from calipers.comparisons.comparison_options import DoctorOptions
from calipers.doctor import answer_findings, task_findings
from calipers.doctor.facts import (
    FAILED,
    MOST_ROWS,
    NEEDED,
    Collected,
    Facts,
    Problem,
    make_outcome_plan,
    narrow,
)
from calipers.doctor.next_steps import find_support, list_commands
from calipers.doctor.result import SEVERITIES, Diagnosis, Finding, HeldField, HeldFile, format_share
from calipers.records.batch import BadRow, Source, Wanted
from calipers.records.column_hints import recognize_tool, suggest_fields
from calipers.records.completeness import explain_missing
from calipers.records.convert import list_fields, look_through, read_chunk
from calipers.records.derived_fields import SYNONYMS, TRACE, TRACE_PARTS, list_derivable
from calipers.records.fields import FIELDS, Kind
from calipers.records.logs.log import Log, log_notices
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.json_documents import JsonArray, WrappedRecords
from calipers.records.readers.lines import JsonLines, PipedLines
from calipers.records.readers.tables import RowList, list_parts
from calipers.records.result_folder import RECORDS, find_folder
from calipers.records.rows import list_names
from calipers.records.sources import STDIN, list_readable, open_sources
from calipers.scores.resolve_options import declare_signature, resolve_options, split_own_options
from calipers.support.errors import ArgumentTypeError, CalipersError, DataError

if TYPE_CHECKING:
    from calipers.support.keywords import DoctorKeywords

_FORMATS: tuple[tuple[type, str], ...] = (
    (WrappedRecords, "a JSON object around a list of records"),
    (JsonArray, "a list of JSON objects"),
    (PipedLines, "JSON lines, piped"),
    (JsonLines, "JSON lines"),
    (Csv, "CSV"),
    (RowList, "records in memory"),
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
        plan = make_outcome_plan()
        columns = [name for name in list_fields(self.source, self.map) if name != TRACE]
        wanted = Wanted(tuple(dict.fromkeys((*plan.fields, *NEEDED, *columns))), self.map)
        suggested = suggest_fields(columns, close=_CLOSE)
        if "judge" in columns:  # a judge's reasoning is not the system's
            suggested.pop("cot", None)
        identified = {"model", "tier"} & {*columns}
        row = 1
        for chunk in self.source.chunks(wanted):
            batch = read_chunk(chunk)
            self._note_bad(batch.bad)
            frame = batch.frame
            if frame.height:
                if not self.records:
                    self.fits = {f: c for f, c in suggested.items() if may_be_field(frame[c], f)}
                for column in columns:
                    self.held[column] += frame.height - frame[column].null_count()
                name = _UNNAMED if identified else Path(self.source.name).stem
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
        for row in rows:
            match = _PLACE.match(row.problem)
            key = match[1] if match else "row"
            self.bad_counts[key] += 1
            if self.bad_counts[key] <= _EXAMPLES:
                self.bad.setdefault(key, []).append(row)

    def list_problems(self) -> Iterator[Problem]:
        """Yield what is wrong with bad rows, a field at a time."""
        for key, rows in self.bad.items():
            places = tuple(f"{row.source}:{row.row}" for row in rows)
            yield Problem(problem=rows[0].problem, count=self.bad_counts[key], examples=places)

    @property
    def present(self) -> frozenset[str]:
        """The fields of the record that any record has."""
        known = {name for name, count in self.held.items() if count}
        columns = self.source.columns()
        if TRACE in columns or not set(TRACE_PARTS).isdisjoint(columns):
            known.add(TRACE)
        return frozenset(known | {name for name in list_derivable(columns) if name != TRACE})

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
            inside=tuple(name for name in list_names(self.source) if name not in columns),
            tool=recognize_tool(columns),
        )


def _describe_format(source: Source) -> str:
    suffix = Path(source.name).suffix
    packed = f", compressed ({suffix[1:]})" if suffix in (".gz", ".zst", ".zstd") else ""
    if isinstance(source, Log):
        return f"a log of {source.format.name}{packed}"
    known = (words for kind, words in _FORMATS if isinstance(source, kind))
    return next(known, "a table" if source.path is None else "Parquet") + packed


def may_be_field(values: pl.Series, name: str) -> bool:
    """Return True if a column's values could be those of a field."""
    values, of = values.alias(name).drop_nulls(), FIELDS[name]
    if not len(values):
        return False
    if of.kind is Kind.BOOLEAN:
        return values.dtype == pl.Boolean
    if of.kind is Kind.NUMBER:
        outside = of.mark_outside(pl.col("v").cast(pl.Float64)).any()
        return values.dtype.is_numeric() and not values.to_frame("v").select(outside).item()
    if of.kind is Kind.ITEMS:
        return True
    texts = values.cast(pl.String)
    nested = texts.str.contains(r"^\s*[\[{]").sum() * 2 > len(texts)
    if of.kind in (Kind.NAMES, Kind.NESTED) or nested:
        return of.kind in (Kind.NAMES, Kind.NESTED) and nested
    is_told = name not in _VARIED or len(texts) < _SEVERAL
    return is_told or texts.n_unique() >= max(2, _LEAST_VARIED * len(texts))


KINDS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(task_findings.find_bad_rows, task_findings.find_unfinished, task_findings.find_failed_calls),
    *(
        task_findings.find_unclear_ids,
        task_findings.find_duplicates,
        task_findings.find_unequal_runs,
    ),
    *(
        task_findings.find_missing_tasks,
        answer_findings.find_swapped_labels,
        task_findings.find_leaked_targets,
    ),
    *(answer_findings.find_unread, answer_findings.find_constant, answer_findings.find_truncated),
    *(
        answer_findings.find_odd_confidence,
        answer_findings.find_odd_units,
        answer_findings.find_lengthy_judge,
    ),
    task_findings.find_ceiling,
)


_SHOWN = 3  # systems with the same finding
_HEAD = 1 << 16  # bytes of a file that cannot be read


def examine(
    data: Any,
    *,
    field_map: Mapping[str, str],
    strict: bool = False,
    most_rows: int = MOST_ROWS,
    known_as: str = STDIN,
) -> Diagnosis:
    """Examine everything in `data`; a file that cannot be read is reported, and the rest is read.

    Args:
        data: Paths, each a file, glob or folder, or records as `score` takes them.
        field_map: The data's names of the record's fields.
        strict: Whether findings make the exit code 1.
        most_rows: How many records are kept; of more, a sample of the tasks.
        known_as: The name in suggested commands of records that have no path.
    """
    given, parts = _name_parts(data, known_as)
    files: list[HeldFile] = []
    read: list[Census] = []
    facts = Collected(most_rows)
    for name, part in zip(given, parts, strict=True):
        try:
            folder = find_folder(part)
            for source in open_sources(part if folder is None else str(folder / RECORDS)):
                files.append(HeldFile(path=source.name, format=""))  # until it has been read
                census = Census(source, field_map)
                census.read(facts, len(read))
                read.append(census)
                files[-1] = census.file()
        except ArgumentTypeError:  # no file at all
            raise
        except CalipersError as error:
            why, fix = _guess_contents(name, error)
            if files and not files[-1].format:
                files.pop()
            files.append(HeldFile(path=name, format="unreadable", unreadable=why, fix=fix))
    rows = facts.frame()
    if not rows.height:
        return Diagnosis(files=tuple(files), support=None, findings=(), commands=(), strict=strict)
    facts_of_all = Facts(
        rows=rows,
        files=tuple(examined.source.name for examined in read),
        bad=tuple(problem for census in read for problem in census.list_problems()),
        unfinished=tuple(_list_unfinished(read)),
        share=1 / 2**facts.halvings,
    )
    present = frozenset().union(*(examined.present for examined in read))
    maps = {name: theirs for examined in files for name, theirs in examined.maps.items()}
    support = find_support(facts_of_all, present, maps)
    findings = [
        finding for find in KINDS for finding in _shorten_findings(list(find(facts_of_all)))
    ]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    unreadable = {examined.path for examined in files if examined.unreadable}
    readable = [name for name in given if name not in unreadable]
    return Diagnosis(
        files=tuple(files),
        support=support,
        findings=tuple(findings),
        commands=tuple(list_commands(readable, files, support, present)),
        notices=tuple(_list_notices(read, facts.halvings)),
        strict=strict,
    )


def _name_parts(data: Any, known_as: str) -> tuple[list[str], list[Any]]:
    """Return the names and the parts of the data, each part examined on its own."""
    if isinstance(data, str | Path):
        data = [data]
    if isinstance(data, list | tuple) and data and all(isinstance(e, str | Path) for e in data):
        names = [name for given in data for name in _list_files(str(given))]
        return names, [*names]
    return [known_as], [data]


def _list_files(name: str) -> list[str]:
    """Return the files of records in a folder that cannot be read as a whole; else the name."""
    folder = Path(name)
    if not folder.is_dir() or find_folder(name) is not None or list_parts(folder):
        return [name]
    try:
        next(iter(open_sources(name)), None)
    except CalipersError:
        return [str(path) for path in list_readable(folder)] or [name]
    return [name]


def _shorten_findings(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of one kind; if many systems share it, the worst and the others' names."""
    of_systems = [finding for finding in findings if finding.system is not None]
    if len(of_systems) <= _SHOWN:
        yield from findings
        return
    yield from (finding for finding in findings if finding.system is None)
    worst = sorted(of_systems, key=lambda finding: finding.count / finding.of, reverse=True)
    yield from worst[:_SHOWN]
    others = worst[_SHOWN:]
    names = ", ".join(str(finding.system) for finding in others[:_SHOWN])
    most = format_share(others[0].count, others[0].of)
    says = f"{len(others)} more systems have it, up to {most}: {names}"
    yield replace(others[0], says=says + (", …" if others[_SHOWN:] else ""), system=None)


def _list_unfinished(read: Sequence[Census]) -> Iterator[tuple[str, str]]:
    for census in read:
        path = census.source.path
        rows = census.records + census.bad_counts.total()
        for lack in explain_missing(Path(path), rows) if path is not None else ():
            yield census.source.name, lack


def _list_notices(read: Sequence[Census], halvings: int) -> Iterator[str]:
    yield from log_notices([census.source for census in read])
    if halvings:
        yield (
            f"findings are about a sample of the tasks, 1 in {2**halvings:,}, all records of each; "
            "counts are those of the sample"
        )


def _guess_contents(path: str, error: CalipersError) -> tuple[str, str]:
    """Return what is wrong with a file, and what to do by what is in it."""
    is_unknown = any(words in error.message for words in ("unknown format", "no row can be read"))
    guess = next(_list_guesses(Path(path)), None) if is_unknown else None
    if guess is None:
        return error.message, error.fix
    what, fix = guess
    if fix == f"rename it to {Path(path).name}":  # it has that name: what is wrong is in its rows
        return error.message, error.fix
    return f"{error.message}; it looks like {what}", fix


def _list_guesses(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return
    if b"\0" in head:
        yield "binary data", "name a file of records: JSON lines, CSV, Parquet, or a tool's log"
        return
    lines = [line for line in head.decode("utf-8", "replace").split("\n") if line.strip()]
    if not lines:
        return
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(lines[0]), dict):
            yield "JSON lines", f"rename it to {path.with_suffix('.jsonl').name}"
    if head.lstrip()[:1] in (b"[", b"{"):
        yield "JSON", f"rename it to {path.with_suffix('.json').name}"
    for mark, name in ((",", "CSV"), ("\t", "a table with tabs"), (";", "CSV with semicolons")):
        widths = {len(row) for row in csv.reader(lines[:20], delimiter=mark)}
        if len(widths) == 1 and min(widths) > 1:
            yield name, f"write it with commas, and call it {path.with_suffix('.csv').name}"


@declare_signature("doctor", DoctorOptions)
def doctor(data: Any, **options: Unpack[DoctorKeywords]) -> Diagnosis:
    """Report what files hold and support, what looks wrong in them, and what to run next.

    Args:
        data: Paths, or records, as `score` takes them.
        options: Listed below, and on docs/options.md.

    Returns:
        The files with their fields, the findings with examples, and commands to copy.

    >>> rows = [{"id": f"q{n}", "run": 1, "answer": "4", "target": "4"} for n in (1, 2, 2)]
    >>> [(found.kind, found.count, found.examples) for found in doctor(rows).findings]
    [('duplicates', 1, ('q2',)), ('unequal runs', 1, ('q2',))]
    """
    asked, others = split_own_options("doctor", DoctorOptions, options)
    return examine(data, field_map=resolve_options("doctor", others).map, strict=asked.strict)
