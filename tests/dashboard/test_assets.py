"""The drawing script of the dashboard is made where it keeps nobody waiting."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

from calipers.dashboard import site
from calipers.dashboard.site import load_script_apart, read_asset

STATIC = Path(site.__file__).parent / "static"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "calipers"


@pytest.mark.long
def test_the_script_is_made_by_another_process(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(site, "load_script", lambda: pytest.fail("made here"))
    script = load_script_apart()
    [kept] = cache.iterdir()
    assert script == kept.read_text(encoding="utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("made again"))
    assert load_script_apart() == script


def test_it_is_made_here_where_there_is_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, returncode=1)

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(site, "load_script", lambda: "script")
    assert load_script_apart() == "script"


def test_the_file_of_htmx_is_the_version_that_its_name_says() -> None:
    [version] = re.findall(r'version:"([\d.]+)"', read_asset("htmx.js"))
    assert f"htmx-{version}.min.js" in {path.name for path in STATIC.iterdir()}
    assert (STATIC / "htmx.LICENSE").read_text(encoding="utf-8").startswith("Zero-Clause BSD")
