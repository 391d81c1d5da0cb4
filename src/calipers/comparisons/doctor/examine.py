"""Examine files: read each once, look for everything that can be wrong, say what to run next."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.comparisons.doctor.commands import list_commands
from calipers.comparisons.doctor.facts import MOST_ROWS, Collected, Facts
from calipers.comparisons.doctor.findings import KINDS
from calipers.comparisons.doctor.reading import Census
from calipers.comparisons.doctor.results import (
    SEVERITIES,
    Diagnosis,
    Finding,
    HeldFile,
    format_share,
)
from calipers.comparisons.doctor.support import find_support
from calipers.records.logs import log_notices
from calipers.records.result_folder import RECORDS, find_folder
from calipers.records.sources import STDIN, open_sources
from calipers.records.unfinished import explain_unfinished
from calipers.support.errors import ArgumentTypeError, CalipersError

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
    found = Facts(
        rows=rows,
        files=tuple(each.source.name for each in read),
        bad=tuple(problem for census in read for problem in census.list_problems()),
        unfinished=tuple(_list_unfinished(read)),
        share=1 / 2**facts.halvings,
    )
    present = frozenset().union(*(each.present for each in read))
    maps = {name: theirs for each in files for name, theirs in each.maps.items()}
    support = find_support(found, present, maps)
    findings = [each for find in KINDS for each in _shorten_findings(list(find(found)))]
    findings.sort(key=lambda each: SEVERITIES.index(each.severity))
    unreadable = {each.path for each in files if each.unreadable}
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
        return [str(each) for each in data], [str(each) for each in data]
    return [known_as], [data]


def _shorten_findings(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of one kind; if many systems share it, the worst and the others' names."""
    of_systems = [each for each in findings if each.system is not None]
    if len(of_systems) <= _SHOWN:
        yield from findings
        return
    yield from (each for each in findings if each.system is None)
    worst = sorted(of_systems, key=lambda each: each.count / each.of, reverse=True)
    yield from worst[:_SHOWN]
    others = worst[_SHOWN:]
    names = ", ".join(str(each.system) for each in others[:_SHOWN])
    most = format_share(others[0].count, others[0].of)
    says = f"{len(others)} more systems have it, up to {most}: {names}"
    yield replace(others[0], says=says + (", …" if others[_SHOWN:] else ""), system=None)


def _list_unfinished(read: Sequence[Census]) -> Iterator[tuple[str, str]]:
    for census in read:
        path = census.source.path
        rows = census.records + census.bad_counts.total()
        for lack in explain_unfinished(Path(path), rows) if path is not None else ():
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
    told = any(words in error.message for words in ("unknown format", "no row can be read"))
    found = next(_list_guesses(Path(path)), None) if told else None
    if found is None:
        return error.message, error.fix
    what, fix = found
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
