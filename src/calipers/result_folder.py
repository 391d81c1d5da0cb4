"""What a result folder holds, by name, and how to tell one: `calipers run` fills it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
RECORDS = "records.jsonl"
SCORE = "score.json"
GATE = "gate.json"
REPORT = "report.html"

_LARGEST = 16 << 20  # bytes of a file that people or other programs may have changed


def result_folder(data: Any) -> Path | None:
    """The result folder that `data` names; None where it is something else."""
    if isinstance(data, list | tuple) and len(data) == 1:
        data = data[0]
    if not isinstance(data, str | Path):
        return None
    folder = Path(data)
    return folder if (folder / MANIFEST).is_file() and (folder / RECORDS).is_file() else None


def stored_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file of the folder; None where there is none that can be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
