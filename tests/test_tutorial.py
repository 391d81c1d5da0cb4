"""Every file and every command of docs/write-a-metric.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "write-a-metric.md"
_BLOCK = re.compile(r"(?:`([\w.]+)`:\n\n)?```(\w+)\n(.*?)```", re.DOTALL)


def test_the_tutorial_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    for name, kind, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if name:
            Path(name).write_text(text, encoding="utf-8")
        for line in text.splitlines() if kind == "console" else ():
            result = run(*shlex.split(line.removeprefix("$ calipers ")))
            assert result.exit_code == 0, (line, result.output)
            printed.append(result.stdout)
    shown = "\n".join(printed)
    for each in ("mean(politeness)", "p95(meta.retries)", "says_please", "shouting", "score_tone"):
        assert each in shown
    assert "PASS" in shown
    assert "says_please" in Path("report.html").read_text(encoding="utf-8")
    assert Path("desk.parquet").exists()


def test_the_metric_itself_takes_ten_lines() -> None:
    code = PAGE.read_text(encoding="utf-8").partition("`polite.py`:")[2].partition("```")[2]
    lines = [line for line in code.partition("```")[0].splitlines()[1:] if line.strip()]
    assert len(lines) <= 10
