"""Files that tests read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """The rows as JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path
