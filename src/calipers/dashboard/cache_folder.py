"""The folder of indexes: in the user's cache, never in the folder that is viewed.

The path of an index names the source and the state of the source. When a source has changed, the
index of its new state replaces older ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from calipers.metrics.declare.settings import Settings
from calipers.records.reading import AS_IT_IS, ReadingChoices
from calipers.support.cache import find_cache_home
from calipers.support.version import __version__

FORMAT = "3"  # of the index: another one is rebuilt
MOST_BYTES = 20 << 30  # of all indexes together: the longest unused go first
_KEPT_STATES = 2  # of a source: a page may still read the last one
META = "index.json"  # the last file of an index, which counts as built once it exists


def locate_index(
    path: Path,
    files: Iterable[Path],
    field_map: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    reading: ReadingChoices = AS_IT_IS,
    only_now: str = "",
) -> Path:
    """Return the folder of the index of a source, given its files and how it is read.

    `only_now` makes the index one that no other process finds.
    """
    mapped = (f"{name}={theirs}" for name, theirs in (field_map or {}).items())
    measured = () if settings in (None, Settings()) else (repr(settings),)
    read = () if reading == AS_IT_IS else (repr(reading),)
    state = [FORMAT, __version__, *mapped, *measured, *read, *([only_now] if only_now else [])]
    for file in (*files, *([reading.join] if reading.join else ())):
        found = file.stat()
        state.append(f"{file} {found.st_size} {found.st_mtime_ns}")
    return find_cache_home() / "view" / _hash(str(path.resolve())) / _hash("\n".join(state))


def forget_older(place: Path) -> None:
    """Remove all but the latest states of a source."""
    states = sorted(_list_indexes(place.parent), key=_get_last_use, reverse=True)
    for old in states[_KEPT_STATES:]:
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
