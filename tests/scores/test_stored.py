"""A score read back from its JSON says what it said."""

from __future__ import annotations

import json
from pathlib import Path

import calipers as cal
from calipers.scores.reading import read_score

ROWS = [
    {"id": f"q{n}", "model": f"m{m}", "tier": f"T{m}", "input": f"x{n % 7}", "run": run}
    | {"passed": (n * m + run) % 3 == 0, "cost_usd": 0.01 * m}
    for n in range(9)
    for m in range(6)
    for run in (1, 2)
]


def test_what_is_stored_is_read_back(tmp_path: Path) -> None:
    score = cal.score(ROWS, by="tier", profile="tiers", per_task=tmp_path / "tasks.parquet")
    stored = json.loads(score.to_json())
    back = read_score(stored)
    assert back is not None
    assert back.per_task is not None
    assert back.per_task.items is not None
    assert back.per_task.items.duplicates == 2
    assert json.loads(back.to_json()) == stored
