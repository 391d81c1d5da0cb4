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
from calipers.records.logs import Log
from calipers.records.result_folder import MANIFEST, RECORDS, count_planned, read_stored
from calipers.records.sources import open_sources

JUDGES_SCHEMA = "calipers.judges/1"
JUDGE_JOURNAL = ".journal"  # is added to the name of the output
WRITTEN = "written"  # how many judgments were still to be made when the output was written
_TAIL = 4096  # bytes: enough for the line that says so
_HEAD = 1 << 20


def list_unfinished(calls: Mapping[str, int | None]) -> Iterator[str]:
    """Yield what each file lacks, logs of other tools included, under its name if several.

    `calls` says how many calls each file has records of; None where they are yet to be counted.
    """
    for path, made in calls.items():
        for lack in (*explain_unfinished(Path(path), made), *_note_stopped(path)):
            yield lack if len(calls) == 1 else f"{path}: {lack}"


def _note_stopped(path: str) -> Iterator[str]:
    """Yield that another tool's run did not finish, according to its log."""
    if Path(path).is_file():
        for source in open_sources(path):
            if isinstance(source, Log) and source.format.unfinished(Path(path)):
                yield "the run did not finish, samples may be missing"


def explain_unfinished(path: Path, rows: int | None = None) -> Iterator[str]:
    """Yield what the run of a file, or its judges, have not done yet.

    `rows` are the records in it, where they are known and none repeats the call of another.
    """
    try:
        found = path.resolve()
        if not found.is_file():
            return
    except (OSError, ValueError, RuntimeError):  # no path at all, or a circle of links
        return
    if found.name == RECORDS and (planned := count_planned(read_stored(found.parent / MANIFEST))):
        missing = planned - (_count_calls(found) if rows is None else rows)
        if missing > 0:
            yield f"{missing:,} calls were not made"
    yield from _note_unjudged(found.with_name(found.name + JUDGE_JOURNAL))


def _count_calls(journal: Path) -> int:
    """Return how many calls have a record, each once: a repeated one may have two."""
    found: set[tuple[str, ...]] = set()
    with journal.open("rb") as file:
        for line in file:
            if isinstance(record := load_json(line), dict):
                found.add(tuple(str(record.get(name)) for name in ("id", "model", "tier", "run")))
    return len(found)


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
    still_open = last.get(WRITTEN)
    if not isinstance(still_open, int):
        yield "its judges were at work after it was written, and have not ended"
    elif still_open:
        yield f"{still_open:,} judgments were not made"


def _parse_object(line: bytes) -> dict[str, Any]:
    found = load_json(line)
    return found if isinstance(found, dict) else {}
