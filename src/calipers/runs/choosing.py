"""The default folder of a run: the newest of the suite, or a new one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.records.result_folder import find_newest, make_stamp
from calipers.runs.changes import list_changes
from calipers.runs.folder import Folder
from calipers.runs.suite import Suite
from calipers.support.errors import UsageError

_ROOT = "results"


def choose_folder(
    suite: Suite, base: Path, now: Mapping[str, Any], *, fresh: bool
) -> tuple[Folder, tuple[str, ...]]:
    """Return the folder of a run, and what to say about the choice.

    It is the newest of `results/NAME` where that is of the same suite, data and code; else a new
    one, `results/NAME/TIMESTAMP`.

    Args:
        suite: The suite that is run.
        base: The suite's own folder.
        now: The manifest of the run.
        fresh: Whether to take a new folder whatever there is.
    """
    root = Path(_ROOT) / _name_folder(suite)
    while True:
        newest = find_newest(root)
        changes = [] if newest is None else _list_changes(Folder(newest), now, base)
        if newest is not None and not (changes or fresh):
            return Folder(newest), ()
        folder = root / make_stamp(newest)
        if not _make(folder):  # another run has just started there: look again
            continue
        if newest is None or fresh:
            return Folder(folder), ()
        return Folder(folder), (f"a new run, {folder}: since {newest.name}, {'; '.join(changes)}",)


def start_folder(suite: Suite) -> Path:
    """Make and return a new folder for a run of a suite, whatever others there are."""
    root = Path(_ROOT) / _name_folder(suite)
    while not _make(folder := root / make_stamp(find_newest(root))):
        pass  # another run has just started there
    return folder


def _list_changes(folder: Folder, now: Mapping[str, Any], base: Path) -> list[str]:
    """Return what makes the answers of a folder stale; empty if nothing does."""
    try:
        before = folder.read_manifest()
    except UsageError as error:
        return [error.message]
    return [] if before is None else list_changes(before, now, base)


def _make(folder: Path) -> bool:
    """Make a folder; return False if it exists already."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}", fix="name another folder: -o FOLDER"
        ) from error
    return True


def _name_folder(suite: Suite) -> str:
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in suite.name)
    return name.strip(".") or "suite"
