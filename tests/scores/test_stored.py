"""A score read back from its JSON says what it said."""

from __future__ import annotations

import json
from pathlib import Path

import calipers as cal
from calipers.metrics import catalogue, metric_named
from calipers.metrics.stored_metrics import restore_own
from calipers.scores.stored_score import read_score

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


def test_a_metric_of_code_that_is_not_here_is_shown_and_measures_no_other_run() -> None:
    facts = {"says": "", "formula": "code", "unit": "points", "range": [0, 1], "better": "higher"}
    assert restore_own({"courtesy_of_one_run": facts}) == ["courtesy_of_one_run"]
    assert metric_named("courtesy_of_one_run").unit == "points"
    assert "courtesy_of_one_run" not in catalogue()
    rows = [{"id": "a", "answer": "4", "target": "4"}]
    assert "courtesy_of_one_run" not in cal.score(rows).groups[0].metrics
