"""Caches: results that take a while, files that are read often, and the folder of indexes on disk.

Indexes are in the user's cache, never in the folder that is viewed. The path of an index names the
source and the state of the source. When a source has changed, the index of its new state replaces
older ones.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache, wraps
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from calipers.metrics.declare.settings import Settings
from calipers.records.reading_options import DEFAULT_READING, ReadingChoices
from calipers.support.files import find_cache_home
from calipers.support.version import __version__

MOST_RESULTS = 24

T = TypeVar("T")


class Memo(Generic[T]):
    """The last few results; of several threads that ask for one, one computes it, the others wait.

    >>> memo = Memo[int]()
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._at_work: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached value, or make it now."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
            alone = self._at_work.setdefault(key, Lock())
        with alone:
            with self._lock:
                if key in self._held:
                    return self._held[key]
            try:
                made = make()
            finally:
                with self._lock:
                    self._at_work.pop(key, None)
            with self._lock:
                self._held[key] = made
                while len(self._held) > self._most:
                    self._held.popitem(last=False)
            return made


def cache_by_file(most: int) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
    """Return a decorator for what reads a file: it is read again only when the file has changed."""

    def decorate(read: Callable[[Path], T]) -> Callable[[Path], T]:
        @lru_cache(maxsize=most)
        def read_state(path: Path, *stamp: int) -> T:
            del stamp
            return read(path)

        @wraps(read)
        def call(path: Path) -> T:
            try:
                about = path.stat()
            except OSError:
                return read_state(path)
            return read_state(path, about.st_mtime_ns, about.st_size)

        return call

    return decorate


FORMAT = "6"  # of the index: another one is rebuilt
MOST_BYTES = 20 << 30  # of all indexes together: the longest unused go first
_MOST_STATES = 2  # of a source: a page may still read the last one
META = "index.json"  # the last file of an index, which counts as built once it exists


def locate_index(
    path: Path,
    files: Iterable[Path],
    field_map: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    reading: ReadingChoices = DEFAULT_READING,
    only_now: str = "",
) -> Path:
    """Return the folder of the index of a source, given its files and how it is read.

    `only_now` makes the index one that no other process finds.
    """
    mapped = (f"{name}={theirs}" for name, theirs in (field_map or {}).items())
    measured = () if settings in (None, Settings()) else (repr(settings),)
    read = () if reading == DEFAULT_READING else (repr(reading),)
    state = [FORMAT, __version__, *mapped, *measured, *read, *([only_now] if only_now else [])]
    for file in (*files, *([reading.join] if reading.join else ())):
        found = file.stat()
        state.append(f"{file} {found.st_size} {found.st_mtime_ns}")
    return find_cache_home() / "view" / _hash(str(path.resolve())) / _hash("\n".join(state))


def forget_older(place: Path) -> None:
    """Remove all but the latest states of a source."""
    states = sorted(_list_indexes(place.parent), key=_get_last_use, reverse=True)
    for old in states[_MOST_STATES:]:
        shutil.rmtree(old, ignore_errors=True)


def prune(most_bytes: int = MOST_BYTES) -> None:
    """Remove the least recently used indexes until all of them fit into `most_bytes`."""
    home = find_cache_home() / "view"
    if not home.is_dir():
        return
    kept = 0
    every = [
        index for source in home.iterdir() if source.is_dir() for index in _list_indexes(source)
    ]
    for index in sorted(every, key=_get_last_use, reverse=True):
        for file in index.iterdir():
            with suppress(OSError):  # another process may have replaced it just now
                kept += file.stat().st_size
        if kept > most_bytes:
            shutil.rmtree(index, ignore_errors=True)


def _list_indexes(source: Path) -> list[Path]:
    return [
        folder
        for folder in source.iterdir()
        if not folder.name.startswith(".") and (folder / META).exists()
    ]


def _get_last_use(index: Path) -> float:
    return (index / META).stat().st_mtime


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
