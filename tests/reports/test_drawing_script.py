"""The script that draws figures is made once, and a bad copy of it is never used."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

from calipers.reports.pages.page_scripts import load_script


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """How often the script was put together; it is short, and the cache is empty."""
    times: list[int] = []

    def bundle() -> str:
        times.append(1)
        return "window.vegaEmbed = 1;"

    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return times


def again() -> str:
    load_script.cache_clear()
    try:
        return load_script()
    finally:
        load_script.cache_clear()


def test_it_is_kept(made: list[int], tmp_path: Path) -> None:
    assert again() == again()
    assert "window.vegaEmbed = 1;" in again()
    assert len(made) == 1
    assert [path.suffix for path in (tmp_path / "calipers").iterdir()] == [".js"]


def test_a_torn_copy_is_made_anew(made: list[int], tmp_path: Path) -> None:
    whole = again()
    [kept] = (tmp_path / "calipers").iterdir()
    for bad in (whole[:-5].encode(), b"", b"alert(1)", b"\xff\xfe"):
        kept.write_bytes(bad)
        assert again() == whole
    assert len(made) == 5


def test_a_cache_that_cannot_be_written_is_no_matter(
    made: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert again() == again()
    assert len(made) == 2


def test_a_script_that_would_end_its_element_is_refused(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "'</SCRIPT>'")
    with pytest.raises(ValueError, match="cannot be put into a page"):
        again()
    assert not made
