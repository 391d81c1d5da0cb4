"""A system that gives back what was recorded, so that the example needs no model."""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.jsonl")


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded fields of the record with that id."""
    for line in RECORDED.read_bytes().splitlines():
        found: dict[str, Any] = json.loads(line)
        if found.pop("id") == record["id"]:
            return found
    raise KeyError(record["id"])
