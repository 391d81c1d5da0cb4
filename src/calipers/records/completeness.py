"""Missing calls or judgments of a file of records, according to the files beside it.

A journal of `calipers run` lies beside the manifest, which knows how many calls were planned; the
output of `calipers judge` beside a journal, which says whether all of it was judged and written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.fields import load_json
from calipers.records.logs.log import Log
from calipers.records.result_folder import (
    MANIFEST,
    RECORDS,
    count_planned,
    read_json_object,
)
from calipers.records.sources import open_sources

JUDGES_SCHEMA = "calipers.judges/1"
JUDGE_JOURNAL = ".journal"  # is added to the name of the output
JUDGED_FILES = "files"  # that were judged, from the journal's folder
OPEN_JUDGMENTS = "written"  # how many judgments were still to be made when the output was written
_IDENTITY = ("id", "model", "tier", "variant", "run")
_TAIL = 4096  # bytes: enough for the line that says so
_HEAD = 1 << 20
_MOST_JUDGED = 10  # times, one output after the other


def list_missing(calls: Mapping[str, int | None]) -> Iterator[str]:
    """Yield what each file lacks, logs of other tools included; with its name if there are several.

    `calls` says how many calls each file has records of; None where they are yet to be counted.
    """
    for path, made in calls.items():
        for lack in (*explain_missing(Path(path), made), *_note_stopped(path)):
            yield lack if len(calls) == 1 else f"{path}: {lack}"


def list_origins(path: Path, depth: int = 0) -> list[Path]:
    """Return the files that the records were written to first, before judges read them."""
    try:
        records_path = path.resolve()
        judged = _read_first(records_path.with_name(records_path.name + JUDGE_JOURNAL)).get(
            JUDGED_FILES
        )
    except (OSError, ValueError, RuntimeError):  # no path at all, or a circle of links
        return [path]
    names = [name for name in judged if isinstance(name, str)] if isinstance(judged, list) else []
    if records_path.name == RECORDS or not names or depth == _MOST_JUDGED:
        return [records_path]
    return [
        origin for name in names for origin in list_origins(records_path.parent / name, depth + 1)
    ]


def _note_stopped(path: str) -> Iterator[str]:
    """Yield that another tool's run did not finish, according to its log."""
    if Path(path).is_file():
        for source in open_sources(path):
            if isinstance(source, Log) and source.format.unfinished(Path(path)):
                yield "the run did not finish, samples may be missing"


def explain_missing(path: Path, rows: int | None = None) -> Iterator[str]:
    """Yield what the run of a file, or its judges, have not done yet.

    `rows` are the records in it, where they are known and none repeats the call of another.
    """
    try:
        real_path = path.resolve()
        if not real_path.is_file():
            return
    except (OSError, ValueError, RuntimeError):  # no path at all, or a circle of links
        return
    for origin in list_origins(real_path):
        yield from _note_not_called(origin, rows if origin == real_path else None)
    yield from _note_unjudged(real_path.with_name(real_path.name + JUDGE_JOURNAL))


def _note_not_called(journal: Path, rows: int | None) -> Iterator[str]:
    """Yield how many calls of a run were not made."""
    is_run = journal.name == RECORDS and journal.is_file()
    planned = count_planned(read_json_object(journal.parent / MANIFEST)) if is_run else None
    if planned is not None:
        missing = planned - (_count_calls(journal) if rows is None else rows)
        if missing > 0:
            yield f"{missing:,} calls were not made"


def _count_calls(journal: Path) -> int:
    """Return how many calls have a record, each once: a repeated one may have two."""
    calls: set[tuple[str, ...]] = set()
    with journal.open("rb") as file:
        for line in file:
            if isinstance(record := load_json(line), dict):
                calls.add(tuple(str(record.get(name)) for name in _IDENTITY))
    return len(calls)


def _note_unjudged(journal: Path) -> Iterator[str]:
    """Yield what the journal says about an output that is not fully judged."""
    try:
        with journal.open("rb") as file:
            first = _parse_object(file.readline(_HEAD))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            last = _parse_object(file.read().rstrip().rpartition(b"\n")[2])
    except OSError:
        return
    if first.get("schema") != JUDGES_SCHEMA:
        return
    still_open = last.get(OPEN_JUDGMENTS)
    if not isinstance(still_open, int):
        yield "its judges were at work after it was written, and have not ended"
    elif still_open:
        yield f"{still_open:,} judgments were not made"


def _read_first(journal: Path) -> dict[str, Any]:
    """Return the first line of a judges' journal; empty where there is none."""
    try:
        with journal.open("rb") as file:
            first = _parse_object(file.readline(_HEAD))
    except OSError:
        return {}
    return first if first.get("schema") == JUDGES_SCHEMA else {}


def _parse_object(line: bytes) -> dict[str, Any]:
    document = load_json(line)
    return document if isinstance(document, dict) else {}
