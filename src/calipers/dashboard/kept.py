"""Caches of results that take a while to compute, and of files that are read often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

MOST = 24

T = TypeVar("T")


class Kept(Generic[T]):
    """The last few results; of several threads that ask for one, one computes it, the others wait.

    >>> kept = Kept[int]()
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, most: int = MOST) -> None:
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


def read_once(most: int) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
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
