"""CSV files, and what is said of tables that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal

HEADER = "id,answer,target,prob_correct,correct,latency_ms\n"


def write_csv(path: Path, body: str, header: str = HEADER) -> Path:
    path.write_text(header + body, encoding="utf-8", newline="")
    return path


def read_message(data: Any, **options: Any) -> str:
    with pytest.raises(cal.DataError) as refused:
        cal.score(data, **options)
    assert refused.value.fix
    return refused.value.message


def list_keys(score: cal.Score, name: str) -> list[Any]:
    return [group.by[name] for group in score.groups]
