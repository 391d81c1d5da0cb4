"""Files that are written whole or not at all, and a cache on disk.

A reader of a file sees the old one or the new one. A cache holds what was expensive to compute, a
file per entry, named by the hash of its key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from calipers.support.errors import make_write_error

PRIVATE = 0o600


@contextmanager
def stage_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a path beside `path` to write to, which replaces `path` at the end of the block.

    A `private` file is readable by its owner alone, as are all that may hold a provider's texts.
    """
    beside = path.with_name(f".{path.stem}.{os.getpid()}-{uuid4().hex}.partial{path.suffix}")
    try:
        if private:
            beside.touch(mode=PRIVATE)
        yield beside
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write the content of a file that a user asked for."""
    data = content.encode() if isinstance(content, str) else content
    try:
        with stage_file(path, private=private) as beside:
            beside.write_bytes(data)
    except OSError as error:
        raise make_write_error(path, error) from error


MOST_BYTES = 4 << 30
_SWEEP = "000"  # a key with this beginning, one in 4,096, has the folder's size checked

Say = Callable[[str], None]
T = TypeVar("T")


def find_cache_home() -> Path:
    """Return the user's cache folder of Calipers."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "calipers"


def hash_key(*asked: Any) -> str:
    """Return the key of a request: the hash of its JSON."""
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


class DiskCache:
    """Entries by their keys. `what` names them in the notice that they cannot be stored."""

    def __init__(
        self,
        folder: Path,
        *,
        what: str = "results",
        say: Say = lambda _: None,
        suffix: str = ".json",
        spread: bool = True,  # over 256 folders, for very many entries
    ) -> None:
        self.folder = folder
        self._what = what
        self._say = say
        self._suffix = suffix
        self._spread = spread
        self._is_writable = True

    def find(self, key: str, read: Callable[[bytes], T]) -> T | None:
        """Return the entry as `read` parses it, or None if there is none or it cannot be read."""
        path = self._locate(key)
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            content = read(path.read_bytes())
            with suppress(OSError):
                os.utime(path)
            return content
        return None

    def keep(self, key: str, content: bytes) -> None:
        """Write an entry, whole or not at all."""
        if not self._is_writable:
            return
        path = self._locate(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with stage_file(path, private=True) as beside:
                beside.write_bytes(content)
        except OSError as error:
            self._is_writable = False
            self._say(f"{self.folder}: {error.strerror}; {self._what} are not kept in this cache")
        else:
            if key.startswith(_SWEEP):
                self.sweep()

    def drop(self, key: str) -> None:
        """Remove an entry, if it exists."""
        with suppress(OSError):
            self._locate(key).unlink(missing_ok=True)

    def read_entries(self) -> Iterator[tuple[str, bytes]]:
        """Yield the key and content of every entry, in the order of the keys."""
        for path in self._list_files():
            with suppress(OSError):  # another process may have dropped it
                yield path.stem, path.read_bytes()

    def sweep(self, most_bytes: int | None = None) -> None:
        """Remove the least recently used entries until the rest fits into `most_bytes`."""
        entries = []
        for path in self._list_files():
            with suppress(OSError):
                about = path.stat()
                entries.append((about.st_mtime_ns, about.st_size, path.stem))
        excess = sum(size for _, size, _ in entries) - (most_bytes or MOST_BYTES)
        for _, size, key in sorted(entries):
            if excess <= 0:
                return
            self.drop(key)
            excess -= size

    def _list_files(self) -> list[Path]:
        pattern = f"*/*{self._suffix}" if self._spread else f"*{self._suffix}"
        try:
            paths = sorted(self.folder.glob(pattern))
        except OSError:
            return []
        return [path for path in paths if not path.name.startswith(".")]

    def _locate(self, key: str) -> Path:
        folder = self.folder / key[:2] if self._spread else self.folder
        return folder / f"{key}{self._suffix}"
