"""The drawing script of the dashboard is made where it keeps nobody waiting."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

from calipers.dashboard import assets
from calipers.dashboard.assets import load_script_apart


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "calipers"


@pytest.mark.long
def test_the_script_is_made_by_another_process(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(assets, "load_script", lambda: pytest.fail("made here"))
    script = load_script_apart()
    [kept] = cache.iterdir()
    assert script == kept.read_text(encoding="utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("made again"))
    assert load_script_apart() == script


def test_it_is_made_here_where_there_is_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, returncode=1)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(assets, "load_script", lambda: "script")
    assert load_script_apart() == "script"
