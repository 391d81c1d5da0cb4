"""Examine files: read each once, look for everything that can be wrong, say what to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from calipers.comparisons.doctor.unreadable import guess_contents
from calipers.records.logs import log_notices
from calipers.records.result_folder import RECORDS, find_folder
from calipers.records.sources import STDIN, open_sources
from calipers.records.unfinished import explain_unfinished
from calipers.support.errors import ArgumentTypeError, CalipersError

_SHOWN = 3  # systems with the same finding


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
            why, fix = guess_contents(name, error)
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
