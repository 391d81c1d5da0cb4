"""What a result folder holds, by name, and how to tell one: `calipers run` fills it."""

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
GATE = "gate.json"
REPORT = "report.html"

_STAMP = "%Y-%m-%dT%H%M%SZ"
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z", re.ASCII)
_LARGEST = 16 << 20  # bytes of a file that people or other programs may have changed


def result_folder(data: Any) -> Path | None:
    """Return the result folder that `data` names; None where it is something else.

    A folder that holds those of several runs, as `results/NAME` does, stands for the newest.
    """
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if not isinstance(data, str | Path):
        return None
    folder = newest_run(Path(data)) or Path(data)
    return folder if (folder / MANIFEST).is_file() and (folder / RECORDS).is_file() else None


def newest_run(folder: Path) -> Path | None:
    """Return the newest of the runs in `results/NAME`, by the time in their names, or None."""
    try:
        runs = [each for each in folder.iterdir() if _STAMPED.fullmatch(each.name)]
    except OSError:
        return None
    return max((each for each in runs if each.is_dir()), key=lambda each: each.name, default=None)


def new_stamp(after: Path | None = None) -> str:
    """Return the name of a new run's folder, the time in UTC, and later than that of `after`."""
    now = datetime.now(UTC)
    if after is not None:  # the clock may have been set back, or the second not be over
        before = datetime.strptime(after.name, _STAMP).replace(tzinfo=UTC)
        now = max(now, before + timedelta(seconds=1))
    return now.strftime(_STAMP)


def stored_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file of the folder; None where there is none that can be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def suite_name(manifest: Mapping[str, Any] | None) -> str | None:
    """What the run's suite is called, where the manifest says so."""
    name = _suite(manifest).get("name")
    return name if isinstance(name, str) else None


def suite_parts(manifest: Mapping[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    """The suite's `systems`, `tiers` or `judges`, as far as the manifest can be read."""
    found = _suite(manifest).get(kind)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def planned_calls(manifest: Mapping[str, Any] | None) -> int | None:
    """Systems × tiers × tasks × runs; None where the manifest does not tell."""
    data = (manifest or {}).get("data")
    tasks = data.get("tasks") if isinstance(data, dict) else None
    runs, systems = _suite(manifest).get("runs"), suite_parts(manifest, "systems")
    if not (isinstance(tasks, int) and isinstance(runs, int) and systems):
        return None
    return tasks * runs * len(systems) * max(1, len(suite_parts(manifest, "tiers")))


def why_incomplete(manifest: Mapping[str, Any] | None, records: int, errors: int) -> str | None:
    """What a run with so many records and failed calls lacks; None where it lacks nothing."""
    planned = planned_calls(manifest)
    lacking = planned is not None and records < planned
    made = f"{records:,} of {planned:,} calls were made" if lacking else ""
    failed = f"{errors:,} calls failed" if errors else ""
    return ", ".join(filter(None, (made, failed))) or None


def _suite(manifest: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (manifest or {}).get("suite")
    return found if isinstance(found, dict) else {}
