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

TASK_FIELDS = "fields"  # of the manifest's data: those of their own that the tasks have

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
        runs = [path for path in folder.iterdir() if _STAMPED.fullmatch(path.name)]
    except OSError:
        return None
    return max((run for run in runs if run.is_dir()), key=lambda path: path.name, default=None)


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


def read_json_object(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file of the folder; None if it cannot be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def get_suite_name(manifest: Mapping[str, Any] | None) -> str | None:
    """Return the name of the run's suite, if the manifest has it."""
    name = get_suite(manifest).get("name")
    return name if isinstance(name, str) else None


def list_suite_parts(manifest: Mapping[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    """Return the suite's `systems`, `tiers` and so on, as far as the manifest can be read."""
    parts = get_suite(manifest).get(kind)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def count_planned(manifest: Mapping[str, Any] | None) -> int | None:
    """Return systems × tiers or prompts × tasks × runs; None if the manifest does not say."""
    data = (manifest or {}).get("data")
    tasks = data.get("tasks") if isinstance(data, dict) else None
    runs, systems = get_suite(manifest).get("runs"), list_suite_parts(manifest, "systems")
    if not (isinstance(tasks, int) and isinstance(runs, int) and systems):
        return None
    conditions = max(len(list_suite_parts(manifest, key)) for key in ("tiers", "prompts"))
    return tasks * runs * len(systems) * max(1, conditions)


def explain_incomplete(manifest: Mapping[str, Any] | None, records: int, errors: int) -> str | None:
    """Return what a run with so many records and failed calls lacks; None if complete."""
    planned = count_planned(manifest)
    lacking = planned is not None and records < planned
    made = f"{records:,} of {planned:,} calls were made" if lacking else ""
    failed = f"{errors:,} calls failed" if errors else ""
    return ", ".join(filter(None, (made, failed))) or None


def get_suite(manifest: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the suite in the manifest; empty where there is none."""
    suite = (manifest or {}).get("suite")
    return suite if isinstance(suite, dict) else {}
