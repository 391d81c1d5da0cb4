"""Models without a listed price are remembered, so that the list is loaded for others alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from calipers.metrics.cost.prices import listed, unlisted

pytest.importorskip("genai_prices", reason="genai-prices is not installed (extra `prices`)")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, of which no process knows anything yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start_anew()
    return tmp_path / "cache" / "calipers" / "unlisted-models.json"


def start_anew() -> None:
    """Forget what this process knows; another one would read the file."""
    unlisted._read.cache_clear()
    listed._look_up.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that the list was asked for."""
    found: list[str] = []
    find = listed.PriceList.find_tariff

    def count(self: listed.PriceList, model: str) -> listed.Tariff | None:
        found.append(model)
        return find(self, model)

    monkeypatch.setattr(listed.PriceList, "find_tariff", count)
    return found


def test_the_list_is_asked_once_for_a_model_it_does_not_know(asked: list[str]) -> None:
    for _ in range(2):
        assert listed.find_listed_tariff("our-own") is None
        assert listed.find_listed_tariff("gpt-4o") is not None
        start_anew()
    assert asked == ["our-own", "gpt-4o", "gpt-4o"]


def test_another_version_of_the_list_is_asked_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed.find_listed_tariff("our-own")
    monkeypatch.setattr(unlisted, "_find_version", lambda: "99.0")
    start_anew()
    listed.find_listed_tariff("our-own")
    assert asked == ["our-own", "our-own"]


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"version": 1}', b"\xff", b'{"models": 3}'])
def test_a_damaged_file_is_as_good_as_none(kept: Path, content: bytes) -> None:
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content)
    assert listed.find_listed_tariff("our-own") is None
    start_anew()
    assert unlisted.is_unlisted("our-own")


def test_the_file_stays_small_and_need_not_be_written(kept: Path) -> None:
    for number in range(300):
        unlisted.remember_unlisted(f"model-{number}")
    unlisted.remember_unlisted("x" * 1000)
    assert kept.stat().st_size < 10_000
    start_anew()
    assert unlisted.is_unlisted("model-0")
    assert not unlisted.is_unlisted("model-299")
    kept.unlink()
    kept.mkdir()
    start_anew()
    unlisted.remember_unlisted("other")
    assert unlisted.is_unlisted("other")
