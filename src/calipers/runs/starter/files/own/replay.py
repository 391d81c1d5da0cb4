"""Systems that give back what was recorded. Put your own in their place."""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.jsonl")


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded fields of the task, for the system and the run that are asked."""
    found = [
        each
        for each in map(json.loads, RECORDED.read_bytes().splitlines())
        if each["id"] == str(record["id"]) and each.get("model") in (None, record["model"])
    ]
    if not found:
        raise KeyError(f"{record['model']} has no recorded answer to {record['id']}")
    recorded = found[(record.get("run", 1) - 1) % len(found)]
    return {name: value for name, value in recorded.items() if name not in ("id", "model", "run")}
