"""Real third-party data beside the checkout; tests on it are skipped where it is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

needs_shared_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there is no ../shared/data beside the checkout"
)


def expected() -> dict[str, Any]:
    """The figures that the data's collectors computed or copied from the sources."""
    figures: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    return figures
