"""The indexes of all sources: opened if they exist, built in the background otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from threading import Event, Lock, Timer
from time import monotonic
from uuid import uuid4

import polars as pl

from calipers.dashboard.caches import META, Memo, cache_by_file, forget_older, locate_index, prune
from calipers.dashboard.catalog import Entry
from calipers.dashboard.index import Index
from calipers.dashboard.run_view import read_run_settings
from calipers.dashboard.selection import Selector
from calipers.metrics.checks.checks import Checks
from calipers.metrics.declare.settings import Settings
from calipers.records.reading_options import DEFAULT_READING, ReadingChoices
from calipers.support.errors import CalipersError, DataError, UsageError

WAIT = 0.5  # seconds to wait for a small source before the page says that it is being indexed
_MOST_WAITS = 3  # times as long for the first records of a large one
_LARGE = 100_000_000  # bytes of a source that will not be indexed that soon
_AT_ONCE = 2
_AGAIN = 2.0  # seconds until a journal that grows is indexed again
_ANOTHER_TRY = 10.0  # seconds
_PRELOAD_AFTER = 0.5  # seconds, in which the first page is made


@dataclass(frozen=True, slots=True)
class Opened:
    """An index to read; while it is being built, the part that exists."""

    selector: Selector
    share: float = 1.0
    key: str = ""
    settings: Settings = field(default_factory=Settings)  # of metrics

    @property
    def index(self) -> Index:
        """The index."""
        return self.selector.index

    @property
    def complete(self) -> bool:
        """Say whether every record is in it."""
        return self.share >= 1


@dataclass
class _Job:
    """An index that is being built."""

    share: float = 0.0
    index: Index | None = None
    error: CalipersError | None = None
    begun: Event = field(default_factory=Event)  # there is something to look at
    done: Event = field(default_factory=Event)
    since: float = field(default_factory=monotonic)

    @property
    def is_worth_another_try(self) -> bool:
        """Say whether it failed long enough ago to try again: the disk may have room by now."""
        return self.error is not None and monotonic() - self.since > _ANOTHER_TRY

    def wait(self, seconds: float, *, large: bool) -> None:
        """Wait briefly until it is done; of a large source, until something can be shown."""
        spent = monotonic() - self.since
        if not large:
            self.done.wait(max(0.0, seconds - spent))
        if not self.done.is_set():
            self.begun.wait(max(0.0, _MOST_WAITS * seconds - spent))


@dataclass
class _Growing:
    """The index of a journal that grows: where the next one is built, and the last whole one."""

    place: Path | None = None
    shown: Opened | None = None
    since: float = 0.0
    until: float = 0.0  # when it is time for the next

    def begin(self, place: Path) -> None:
        """Start to build the next index; no other is started before it is complete."""
        self.place, self.since, self.until = place, monotonic(), inf

    def end(self, opened: Opened) -> None:
        """Take the complete index, and set the time of the next."""
        self.shown = opened
        if self.until == inf:
            took = monotonic() - self.since
            self.until = monotonic() + max(_AGAIN, 10 * took)


class Indexes:
    """Opens the index of an entry; fields may have other names, and further checks be applied."""

    def __init__(
        self,
        field_map: Mapping[str, str] | None = None,
        checks: Checks | None = None,
        reading: ReadingChoices = DEFAULT_READING,
    ) -> None:
        self._field_map = field_map or {}
        self._reading = reading
        self._checks = checks
        # Checks that name files may be others the next time, though they read the same.
        self._only_now = "" if checks is None or checks.is_portable else uuid4().hex
        self._open: Memo[Selector] = Memo()
        self._jobs: dict[Path, _Job] = {}
        self._growing: dict[str, _Growing] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="index")
        self._pool.submit(prune)

    def locate(self, entry: Entry) -> Path:
        """Return the folder of the index of an entry in its present state."""
        try:
            how = self._find_map(entry), self._find_settings(entry), self._find_reading(entry)
            return locate_index(entry.records, entry.files(), *how, self._only_now)
        except OSError as error:
            raise DataError(
                f"{entry.name}: {error.strerror}", fix="a run writes it with its first call"
            ) from error

    def _find_map(self, entry: Entry) -> Mapping[str, str]:
        """Return the data's names of fields; results of runs have the record's own."""
        return {} if entry.is_run else self._field_map

    def _find_reading(self, entry: Entry) -> ReadingChoices:
        """Return how the file is read; results of runs are read as what they are."""
        return DEFAULT_READING if entry.is_run else self._reading

    def _find_settings(self, entry: Entry) -> Settings:
        """Return what the records are measured by: their run's settings and further checks."""
        settings = read_run_settings(entry.folder)
        if self._checks is None:
            return settings
        every = (settings.checks or Checks(())) + self._checks
        return replace(settings, checks=every)

    def is_there(self, entry: Entry) -> bool:
        """Say whether the entry is indexed already."""
        try:
            return entry.size() > 0 and (self.locate(entry) / META).exists()
        except UsageError:  # of its metric settings, which whoever opens it is told
            return False

    def list_systems(self, entry: Entry) -> Mapping[str, tuple[str, ...]]:
        """Return the models and tiers of an entry that is indexed and has several, but not many."""
        return _read_systems(self.locate(entry) / META) if self.is_there(entry) else {}

    def open_growing(self, entry: Entry) -> Opened:
        """Return the index of a journal that grows, as it was a moment ago.

        It is indexed again after a while, the longer indexing takes the later; until then the last
        complete index is used.
        """
        with self._lock:
            growing = self._growing.setdefault(entry.id, _Growing())
            if growing.place is None or monotonic() > growing.until:
                growing.begin(self.locate(entry))
            place = growing.place
        assert place is not None
        try:
            opened = self._open_at(entry, place, WAIT)
        except NotYet:
            if growing.shown is None:
                raise
            return growing.shown
        if opened.complete and place == growing.place:
            growing.end(opened)
        return growing.shown or opened

    def open(self, entry: Entry, *, wait: float = WAIT) -> Opened:
        """Return the index, or the part of it that exists by now."""
        return self._open_at(entry, self.locate(entry), wait)

    def _open_at(self, entry: Entry, place: Path, wait: float) -> Opened:
        if (place / META).exists():
            return self._open_finished(place, entry)
        job = self._start_job(entry, place)
        job.wait(wait, large=entry.size() > _LARGE)
        if job.error is not None:
            raise job.error
        if job.done.is_set():
            return self._open_finished(place, entry)
        index = job.index
        if index is None:
            raise NotYet(entry.name)
        return Opened(
            Selector(index),
            share=min(job.share, 0.99),
            key=f"{place} {index.rows}",
            settings=self._find_settings(entry),
        )

    def _open_finished(self, place: Path, entry: Entry) -> Opened:
        selector = self._open.get(place, lambda: _open_selector(place))
        return Opened(selector, key=str(place), settings=self._find_settings(entry))

    def close(self) -> None:
        """Stop: begin no further index."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_job(self, entry: Entry, place: Path) -> _Job:
        with self._lock:
            job = self._jobs.get(place)
            if job is None or job.is_worth_another_try:
                job = self._jobs[place] = _Job()
                self._pool.submit(self._build, entry, place, job)
            return job

    def _build(self, entry: Entry, place: Path, job: _Job) -> None:
        from calipers.dashboard.index_builder import build_index, write_orders  # noqa: PLC0415 (loads what measures)

        def report_progress(share: float, index: Index) -> None:
            job.share, job.index = share, index
            job.begun.set()

        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._find_reading(entry).apply():  # in this thread
                how = self._find_map(entry), self._find_settings(entry)
                build_index(entry.records, place, report_progress, *how)
            forget_older(place)
        except CalipersError as error:
            job.error = error
        except OSError as error:
            job.error = DataError(
                f"the index of {entry.name}: {error.strerror or error}",
                fix="make room, or name another place for it: XDG_CACHE_HOME=FOLDER",
            )
        except Exception as error:  # noqa: BLE001 (told to whoever waits, as one line)
            job.error = DataError(f"{entry.name}: {error}", fix="see: calipers score on this file")
        finally:
            job.done.set()
            job.begun.set()
            with self._lock:
                if job.error is None:
                    self._jobs.pop(place, None)
        if job.error is None:
            with suppress(OSError, pl.exceptions.PolarsError):  # a page sorts by itself without
                write_orders(place)


@cache_by_file(10_000)
def _read_systems(meta: Path) -> Mapping[str, tuple[str, ...]]:
    return Index.open(meta.parent).summary.systems


def _open_selector(place: Path) -> Selector:
    (place / META).touch()  # it was used now
    selector = Selector(Index.open(place))
    later = Timer(_PRELOAD_AFTER, selector.index.preload)
    later.daemon = True
    later.start()
    return selector


class NotYet(DataError):  # noqa: N818 (reads as a sentence: "raise NotYet")
    """No part of the index exists yet."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is being indexed", fix="the page looks again by itself")
