"""A file to score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.files import write_lines

ROWS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "model": "m0",
        "target": "4",
        "answer": "4.0",
        "cot": "1. 2 + 2 = 4",
        "prob_correct": 0.9,
        "prompt_tokens": 12000,
        "completion_tokens": 345,
        "latency_ms": 80.25,
    },
    {"id": "q2", "model": "m0", "target": "7", "answer": "8", "latency_ms": 120},
    {"id": "q3", "model": "m1", "target": "7", "answer": "7"},
    {"id": "q4", "model": "m1", "target": "7", "error": "timeout: 60 s"},
]


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_lines(tmp_path / "a.jsonl", ROWS))
