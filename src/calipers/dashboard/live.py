"""Progress of a run in progress: its journal is followed line by line as it grows."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from calipers.dashboard.catalog import Entry
from calipers.records.result_folder import MANIFEST, RECORDS, count_planned, read_stored
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.tally import Tally

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


class Followed:
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
                calls=count_planned(read_stored(self._folder / MANIFEST)),
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
        key = tuple(str(record.get(name)) for name in ("id", "model", "tier", "run"))
        if (before := self._last.pop(key, None)) is not None:
            self._tally.add(before, sign=-1)
        if record.get("error") is not None:
            self._last[key] = record
        self._tally.add(record)
