"""Ratings for tests of agreement."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import commands
from tests.files import write_lines

WIDE: list[dict[str, Any]] = [
    {"id": "q1", "human": "good", "judge": "good", "other": "good"},
    {"id": "q2", "human": "bad", "judge": "good", "other": "bad"},
    {"id": "q3", "human": "bad", "judge": "bad", "other": None},
    {"id": "q4", "human": "good", "judge": "good", "other": "bad"},
]
JUDGED: list[dict[str, Any]] = [
    {
        "id": f"q{number}",
        "judgments": [
            {"judge": "j1", "passed": a > 2, "weighted_score": a / 5, "scores": {"clear": a}},
            {"judge": "j2", "passed": b > 2, "weighted_score": b / 5, "scores": {"clear": b}},
        ],
    }
    for number, (a, b) in enumerate([(1, 2), (5, 4), (3, 3), (2, 2), (4, 5), (1, 1)])
]
LONG = [
    {"task": record["id"], "run": 1, "by": judgment["judge"], "mark": judgment["scores"]["clear"]}
    for record in JUDGED
    for judgment in record["judgments"]
]


run, refused = partial(commands.run, "agree"), partial(commands.refused, "agree")


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "wide.jsonl", WIDE)
