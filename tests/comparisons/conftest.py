"""Files to compare and to plan with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparisons.powered import data
from tests.comparisons.runs_at_hand import logs
from tests.files import write_lines

__all__ = ["data", "files"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write_lines(tmp_path / "base.jsonl", logs(40, 1)),
        write_lines(tmp_path / "candidate.jsonl", logs(42, 2, skill=0.8)[2:]),
    )
