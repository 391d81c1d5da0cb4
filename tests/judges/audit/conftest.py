"""What these tests are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files import write_lines
from tests.judges.audit.judged_at_hand import PANEL


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "panel.jsonl", PANEL)
