"""The contents of a folder: results of runs, and files of records.

Everything is named by an opaque id, made from its path in the folder. No page takes a path, and a
link that leads out of the folder is ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from threading import Lock
from time import monotonic
from typing import Any

from calipers.dashboard.caches import cache_by_file
from calipers.records.fields import FIELDS
from calipers.records.logs import log_at
from calipers.records.readers.tables import list_parts
from calipers.records.result_folder import MANIFEST, RECORDS, read_json_object
from calipers.records.sources import is_readable
from calipers.support.errors import DataError

MOST_ENTRIES = 5_000  # entries; a folder of more is not one of results
MOST_FOLDERS = 20_000  # folders to look into, in case the user starts in a home folder
RUN = "calipers.run/1"  # the manifest's schema
_BEGINNING = re.compile(rb'\s*\{\s*"schema":\s*"calipers\.run/1"')
_HEAD = 128  # bytes of a manifest, as runs write them
FRESH = 1.0  # seconds for which a listing is reused, or ten times what it took
_PASSED_BY = ("node_modules", "site-packages", "__pycache__")
_FIRST_LINE = 1 << 20
_DOCUMENT = 64 << 20  # bytes of a `.json` that is read to see what it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A run, a file of records, or a folder of Parquet parts."""

    id: str
    name: str  # its place in the folder
    records: Path  # what holds them
    folder: Path | None = None  # where a run's results are

    @property
    def is_run(self) -> bool:
        """Say whether it is the result folder of a run."""
        return self.folder is not None

    def files(self) -> list[Path]:
        """Return the files that hold the records."""
        return list_parts(self.records) if self.records.is_dir() else [self.records]

    def read_mtime(self) -> float:
        """Return when the records were last written to, as a time stamp."""
        return max((found.st_mtime for found in self._read_stats()), default=0.0)

    def size(self) -> int:
        """Return how many bytes the records take; 0 if they do not exist."""
        return sum(found.st_size for found in self._read_stats())

    def _read_stats(self) -> Iterator[os.stat_result]:
        with suppress(OSError):
            about = self.records.stat()
            if not S_ISDIR(about.st_mode):
                yield about
                return
        for file in self.files():
            with suppress(OSError):
                yield file.stat()


class Catalog:
    """The entries of a folder, listed again after a moment."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._entries: dict[str, Entry] = {}
        self._until = 0.0
        self._lock = Lock()

    def list_entries(self) -> list[Entry]:
        """Return all entries, by name."""
        with self._lock:
            began = monotonic()
            if began > self._until:
                found = sorted(
                    islice(_walk_entries(self.root), MOST_ENTRIES), key=lambda entry: entry.name
                )
                self._entries = {entry.id: entry for entry in found}
                ended = monotonic()
                self._until = ended + max(FRESH, 10 * (ended - began))
            return list(self._entries.values())

    def find_entry(self, id_: str) -> Entry:
        """Return the entry of that id; raise UsageError if there is none."""
        with self._lock:
            known = self._entries.get(id_)
            if known is None:
                self._until = 0.0  # it may have come just now
        if known is None:
            known = next((entry for entry in self.list_entries() if entry.id == id_), None)
        if known is None or not self._is_there(known):
            raise NotHere("nothing of that name is in the folder")
        return known

    def _is_there(self, entry: Entry) -> bool:
        """Say whether an entry is still in the folder; a run may not have a journal yet."""
        if entry.folder is not None and not entry.records.exists():
            return is_inside(entry.folder, self.root)
        return all(is_inside(file, self.root) for file in (entry.records, *entry.files()))

    def find_file(self, path: Path) -> Path | None:
        """Return a path that is there and, its links followed, in the folder; else None."""
        return path if is_inside(path, self.root) else None

    def read_stored(self, path: Path) -> dict[str, Any] | None:
        """Return the object in a JSON file, if it is in the folder."""
        return read_json_object(path) if is_inside(path, self.root) else None


class NotHere(DataError):  # noqa: N818 (reads as a sentence: "raise NotHere")
    """What was asked for is not there; the page says so, with the status 404."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fix="go back to the list of runs")


def is_inside(path: Path | str, root: Path) -> bool:
    """Say whether a path, its links followed, is in the folder."""
    try:
        found = os.path.realpath(path, strict=True)
    except (OSError, RuntimeError):
        return False
    return found == str(root) or found.startswith(f"{str(root).rstrip(os.sep)}{os.sep}")


def _walk_entries(root: Path) -> Iterator[Entry]:
    if root.is_file():
        yield _make_entry(root.parent, root)
        return
    for place, folders, files in islice(os.walk(root), MOST_FOLDERS):
        here = Path(place)
        if MANIFEST in files and is_run_folder(here, root):
            folders[:] = sorted(name for name in folders if is_run_folder(here / name, root))
            yield _make_entry(root, here / RECORDS, folder=here)
            continue
        if here != root and _is_one_table(here, folders, files):
            folders.clear()
            if all(is_inside(part, root) for part in list_parts(here)):
                yield _make_entry(root, here)
            continue
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _PASSED_BY
        )
        for name in files:
            path = here / name
            listed = not name.startswith(".") and is_readable(path)
            if listed and is_inside(path, root) and path.is_file() and _has_records(path):
                yield _make_entry(root, path)


def _make_entry(root: Path, records: Path, *, folder: Path | None = None) -> Entry:
    base, own = str(root), str(folder or records)
    place = own[len(base) :].strip(os.sep).replace(os.sep, "/") or "."
    name = root.name if place == "." else place
    digest = blake2b(place.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return Entry(id=digest, name=name, records=records, folder=folder)


def is_run_folder(folder: Path, root: Path) -> bool:
    """Say whether a run of ours has made the folder, which is in the root or is it."""
    here = str(folder)  # paths as texts: thousands of them are looked at for a list
    about = _read_stat(f"{here}{os.sep}{MANIFEST}", root)
    if about is None or not S_ISREG(about.st_mode):
        return False
    journal = f"{here}{os.sep}{RECORDS}"
    outside = _read_stat(journal, root) is None and os.path.exists(journal)  # noqa: PTH110
    return not outside and _is_of_a_run(
        f"{here}{os.sep}{MANIFEST}", about.st_mtime_ns, about.st_size
    )


def _read_stat(path: str, root: Path) -> os.stat_result | None:
    """Return what is known of a file; None where there is none, or a link leads out of the root."""
    try:
        about = os.lstat(path)
        if not S_ISLNK(about.st_mode):
            return about
        return os.stat(path) if is_inside(path, root) else None  # noqa: PTH116
    except OSError:
        return None


@lru_cache(maxsize=10_000)
def _is_of_a_run(manifest: str, *changed: int) -> bool:
    """Say whether a manifest is one of ours, which it says at its beginning; read once."""
    del changed
    with suppress(OSError), open(manifest, "rb") as file:  # noqa: PTH123
        if _BEGINNING.match(file.read(_HEAD)):
            return True
    found = read_json_object(Path(manifest))
    return found is not None and found.get("schema") == RUN


def _is_one_table(folder: Path, folders: list[str], files: list[str]) -> bool:
    """Say whether Parquet parts in a folder are one table, as clusters write them."""
    parts = [name for name in files if name.endswith(".parquet")]
    others = [name for name in files if not name.startswith((".", "_")) and name not in parts]
    by_key = [name for name in folders if "=" in name]
    numbered = len(parts) > 1 and all(name.startswith("part-") for name in parts)
    return not others and (numbered or bool(by_key)) and bool(list_parts(folder))


def _has_records(path: Path) -> bool:
    """Say whether a `.json` file holds a record per line or a log; others are told by name."""
    if path.suffix.lower() != ".json":
        return True
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = json.loads(file.readline(_FIRST_LINE))
    except OSError:
        return False
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, dict) and not FIELDS.keys().isdisjoint(first):
        return True
    return size <= _DOCUMENT and _is_log(path)


@cache_by_file(10_000)
def _is_log(path: Path) -> bool:
    try:
        return log_at(path, path.suffix.lower()) is not None
    except DataError:
        return False
