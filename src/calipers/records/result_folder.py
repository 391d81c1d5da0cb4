"""The files of a result folder, by name, and how to recognize one: `calipers run` fills it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
RECORDS = "records.jsonl"
SCORE = "score.json"
BETTER = "better.json"
GATE = "gate.json"
REPORT = "report.html"

_STAMP = "%Y-%m-%dT%H%M%SZ"
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z", re.ASCII)
_LARGEST = 16 << 20  # bytes of a file that people or other programs may have changed


def find_folder(data: Any) -> Path | None:
    """Return the result folder that `data` names; None if it is something else.

    A folder that holds those of several runs, as `results/NAME` does, stands for the newest.
    """
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if not isinstance(data, str | Path):
        return None
    folder = find_newest(Path(data)) or Path(data)
    return folder if (folder / MANIFEST).is_file() and (folder / RECORDS).is_file() else None


def find_newest(folder: Path) -> Path | None:
    """Return the newest of the runs in `results/NAME`, by the time in their names, or None."""
    try:
        runs = [each for each in folder.iterdir() if _STAMPED.fullmatch(each.name)]
    except OSError:
        return None
    return max((each for each in runs if each.is_dir()), key=lambda each: each.name, default=None)


def make_stamp(after: Path | None = None) -> str:
    """Return the name of a new run's folder: the time in UTC, later than that of `after`."""
    now = datetime.now(UTC)
    if after is not None:  # the clock may have been set back, or the second not be over
        before = datetime.strptime(after.name, _STAMP).replace(tzinfo=UTC)
        now = max(now, before + timedelta(seconds=1))
    return now.strftime(_STAMP)


def read_run_time(folder: Path) -> float | None:
    """Return when a run began, by the time in its folder's name; None where that has none."""
    if not _STAMPED.fullmatch(folder.name):
        return None
    try:
        return datetime.strptime(folder.name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:  # of the right shape, and no day of the calendar
        return None


def read_stored(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file of the folder; None if it cannot be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def get_suite_name(manifest: Mapping[str, Any] | None) -> str | None:
    """Return the name of the run's suite, if the manifest has it."""
    name = _get_suite(manifest).get("name")
    return name if isinstance(name, str) else None


def list_suite_parts(manifest: Mapping[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    """Return the suite's `systems`, `tiers` or `judges`, as far as the manifest can be read."""
    found = _get_suite(manifest).get(kind)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def count_planned(manifest: Mapping[str, Any] | None) -> int | None:
    """Return systems × tiers × tasks × runs; None if the manifest does not say."""
    data = (manifest or {}).get("data")
    tasks = data.get("tasks") if isinstance(data, dict) else None
    runs, systems = _get_suite(manifest).get("runs"), list_suite_parts(manifest, "systems")
    if not (isinstance(tasks, int) and isinstance(runs, int) and systems):
        return None
    return tasks * runs * len(systems) * max(1, len(list_suite_parts(manifest, "tiers")))


def explain_incomplete(manifest: Mapping[str, Any] | None, records: int, errors: int) -> str | None:
    """Return what a run with so many records and failed calls lacks; None if complete."""
    planned = count_planned(manifest)
    lacking = planned is not None and records < planned
    made = f"{records:,} of {planned:,} calls were made" if lacking else ""
    failed = f"{errors:,} calls failed" if errors else ""
    return ", ".join(filter(None, (made, failed))) or None


def _get_suite(manifest: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (manifest or {}).get("suite")
    return found if isinstance(found, dict) else {}
