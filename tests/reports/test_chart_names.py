"""Charts of systems with the names of what every object of JavaScript has."""

from __future__ import annotations

from pathlib import Path

import pytest

import calipers as cal

NAMES = ("constructor", "__proto__", "toString", "llama")


def test_a_system_may_be_called_as_what_objects_have(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": str(n), "model": name, "target": "1", "answer": "10"[n % 2], "prob_correct": 0.3}
        for name in NAMES
        for n in range(6)
    ]
    cal.score(rows, by="model", figures=tmp_path)
    drawn = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.svg"))
    assert all(name in drawn for name in NAMES)
    assert "Operator not defined" not in capfd.readouterr().err
