"""One run, or one file of records, with what its folder says about it, and its progress.

A list names thousands of them: each file is read when something of it is asked for, and read again
only when it has changed. The journal of a run in progress is followed line by line as it grows.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from calipers.dashboard.caches import cache_by_file
from calipers.dashboard.catalog import Catalog, Entry
from calipers.dashboard.selection import format_value
from calipers.gates.result import GateResult, read_gate
from calipers.metrics.declare.settings import Settings
from calipers.records.result_folder import (
    GATE,
    MANIFEST,
    RECORDS,
    SCORE,
    count_planned,
    explain_incomplete,
    get_suite_name,
    list_suite_parts,
    read_json_object,
)
from calipers.scores.result import Score
from calipers.scores.stored_score import keep_metrics, read_score
from calipers.systems.journal import Tally

_LOCK = ".lock"
_MOST_AT_ONCE = 64 << 20  # bytes of a journal read for one look


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counts of a run so far."""

    running: bool
    calls: int | None  # in all, where the manifest says so
    done: int
    errors: int
    truncated: int
    right: int
    decided: int
    cost_usd: float | None

    @property
    def share(self) -> float | None:
        """How much of it is done."""
        return min(1.0, self.done / self.calls) if self.calls else None

    @property
    def accuracy(self) -> float | None:
        """The share of right answers among those that are right or wrong."""
        return self.right / self.decided if self.decided else None


def is_running(folder: Path) -> bool:
    """Say whether a run holds the folder's lock now; asking does not block a run from starting."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


class FollowedJournal:
    """A journal that is read from where the last reading ended."""

    def __init__(self, entry: Entry) -> None:
        assert entry.folder is not None
        self._folder = entry.folder
        self._at = 0
        self._made: tuple[int, int] | None = None  # which file it is: a journal may be replaced
        self._tally = Tally(0)
        self._last: dict[tuple[str, ...], dict[str, Any]] = {}  # failed calls, which are made again
        self._lock = Lock()

    def read_progress(self) -> Progress:
        """Return the counts up to now."""
        with self._lock:
            self._read_on()
            tally = self._tally
            counts = ("done", "errors", "truncated", "right", "decided")
            return Progress(
                running=is_running(self._folder),
                calls=count_planned(read_json_object(self._folder / MANIFEST)),
                cost_usd=tally.cost_usd if tally.priced else None,
                **{name: getattr(tally, name) for name in counts},
            )

    def _read_on(self) -> None:
        try:
            if not (self._folder / RECORDS).is_file():
                return
            with (self._folder / RECORDS).open("rb") as file:
                found = os.fstat(file.fileno())
                if self._made != (found.st_dev, found.st_ino) or found.st_size < self._at:
                    self._made, self._at = (found.st_dev, found.st_ino), 0
                    self._tally, self._last = Tally(0), {}
                file.seek(self._at)
                data = file.read(_MOST_AT_ONCE)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.split(b"\n"):
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(record, dict):
            return
        key = tuple(str(record.get(name)) for name in ("id", "model", "tier", "variant", "run"))
        if (before := self._last.pop(key, None)) is not None:
            self._tally.add(before, sign=-1)
        if record.get("error") is not None:
            self._last[key] = record
        self._tally.add(record)


MAIN = ("accuracy", "pass_rate", "final_score", "composite_score")
HEADLINE = (*MAIN, "cost_usd", "latency_p95_ms")
"""The metrics that a list shows, as far as they are known."""

T = TypeVar("T")

_SCORES = 500  # that are held; each takes some hundred kilobytes
_SMALL = 10_000  # manifests and verdicts
_NEEDS_A_MODEL = "success_threshold"  # a setting of what no page shows


class Run:
    """An entry, its manifest, its score and its verdict, each read when it is asked for."""

    def __init__(
        self,
        entry: Entry,
        catalog: Catalog,
        *,
        kept: Callable[[Entry], Score | None],
        follow: Callable[[Entry], FollowedJournal],
    ) -> None:
        """Take where scores of files are cached, and how the journal of a run is followed."""
        self.entry, self.id, self.name = entry, entry.id, entry.name
        self._catalog = catalog
        self._kept = kept
        self._follow = follow

    @cached_property
    def manifest(self) -> Mapping[str, Any] | None:
        """What the run is of; None of a file."""
        return self._read(MANIFEST, _read_manifest)

    @cached_property
    def score(self) -> Score | None:
        """The run's numbers, or those measured when the file was last viewed."""
        return self._read(SCORE, read_score_at) if self.entry.is_run else self._kept(self.entry)

    @cached_property
    def brief(self) -> Score | None:
        """The score with the few metrics that a list shows: a list names many runs."""
        return self._read(SCORE, _read_brief) if self.entry.is_run else self._kept(self.entry)

    @cached_property
    def gate(self) -> GateResult | None:
        """The verdict with its checks."""
        return self._read(GATE, lambda path: read_gate(read_json_object(path)))

    @cached_property
    def running(self) -> bool:
        """Whether it goes on now."""
        return self.entry.folder is not None and is_running(self.entry.folder)

    @cached_property
    def incomplete(self) -> str | None:
        """What a run lacks that has ended without a verdict: by its score, or by its journal."""
        if self.entry.folder is None or self._verdict is not None or self.running:
            return None
        if self.brief is None:
            now = self._follow(self.entry).read_progress()
            return explain_incomplete(self.manifest, now.done, now.errors)
        errors = sum(group.errors for group in self.brief.groups)
        return explain_incomplete(self.manifest, self.brief.records, errors)

    @property
    def verdict(self) -> str:
        """The gate's verdict, `incomplete`, or `none`."""
        return self._verdict or ("none" if self.incomplete is None else "incomplete")

    @cached_property
    def _verdict(self) -> str | None:
        return self._read(GATE, _read_verdict)

    @property
    def suite(self) -> str | None:
        """The name of the suite that was run."""
        return get_suite_name(self.manifest)

    @property
    def records(self) -> int | None:
        """How many there are, where that is known without counting."""
        return None if self.brief is None else self.brief.records

    @cached_property
    def when(self) -> str:
        """When the records were last written to."""
        stamp = self.entry.read_mtime()
        return format_time(stamp) if stamp else ""

    @cached_property
    def tags(self) -> list[str]:
        """The systems and tiers, as far as they are known."""
        kinds = ("systems", "tiers")
        parts = [part for kind in kinds for part in list_suite_parts(self.manifest, kind)]
        found = [str(part.get("name")) for part in parts]
        if not found and self.brief is not None:
            found = [format_value(v) for group in self.brief.groups for v in group.by.values()]
        return list(dict.fromkeys(found))

    def list_systems(self) -> dict[str, tuple[str, ...]]:
        """Return the names of a run's systems and tiers, by the field that records have them in."""
        kinds = {"model": "systems", "tier": "tiers"}
        return {
            field: tuple(str(part.get("name")) for part in list_suite_parts(self.manifest, kind))
            for field, kind in kinds.items()
        }

    def _read(self, name: str, read: Callable[[Path], T | None]) -> T | None:
        """Return what a file of the run's folder holds; None for one that a link leads out to."""
        folder = self.entry.folder
        path = None if folder is None else self._catalog.find_file(folder / name)
        return None if path is None else read(path)


@cache_by_file(_SCORES)
def read_score_at(path: Path) -> Score | None:
    """Return the score in a file; None where there is none."""
    return read_score(read_json_object(path))


@cache_by_file(_SMALL)
def _read_brief(path: Path) -> Score | None:
    found = read_json_object(path)
    return read_score(None if found is None else keep_metrics(found, HEADLINE))


_read_manifest = cache_by_file(_SMALL)(read_json_object)


@cache_by_file(_SMALL)
def _read_verdict(path: Path) -> str | None:
    found = read_gate(read_json_object(path))
    return None if found is None else found.verdict


def format_time(seconds: float) -> str:
    """Return a time stamp as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def put_main_first(names: Collection[str]) -> list[str]:
    """Return the names of metrics, the main ones first."""
    return [*(name for name in MAIN if name in names), *(n for n in names if n not in MAIN)]


def list_valued(runs: Iterable[Run]) -> list[str]:
    """Return the metrics that any of the runs has a value of."""
    groups = (group for run in runs if run.score is not None for group in run.score.groups)
    measured = (each for group in groups for each in group.metrics.items())
    return list(dict.fromkeys(name for name, found in measured if found.value is not None))


def read_run_settings(folder: Path | None) -> Settings:
    """Return the metric settings of a result folder; the defaults where it is none.

    Raises:
        CalipersError: A file that they name is gone, or can no longer be read.
    """
    if folder is None or not (folder / MANIFEST).exists():
        return Settings()
    return _read_settings(folder / MANIFEST)


@cache_by_file(_SMALL)
def _read_settings(manifest: Path) -> Settings:
    from calipers.scores.resolve_options import Layer, list_run_layers, merge_layers  # noqa: PLC0415 (loads Polars)

    return merge_layers(
        Layer(each.source, {k: v for k, v in each.values.items() if k != _NEEDS_A_MODEL})
        for each in list_run_layers(manifest.parent)
    ).settings
