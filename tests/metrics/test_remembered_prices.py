"""What the price list said of a model is remembered, so that the list is loaded for others alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from calipers.metrics.cost.prices import listed, open_price_list, remembered

pytest.importorskip("genai_prices", reason="genai-prices is not installed (extra `prices`)")

ASK = """
import sys
from calipers.metrics.cost.prices.listed import find_listed_tariff, open_price_list
print(open_price_list(), [find_listed_tariff(name) for name in ("gpt-4o", "our-own")])
print("genai_prices.data" in sys.modules)
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, of which no process knows anything yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start_anew()
    return tmp_path / "cache" / "calipers" / "price-list.json"


def start_anew() -> None:
    """Forget what this process knows; another one would read the file."""
    listed.open_excerpt.cache_clear()
    open_price_list.cache_clear()
    listed._look_up.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that the list itself was asked for."""
    found: list[str] = []
    ask = listed._ask_list

    def count(model: str, day: date) -> remembered.Tariff | None:
        found.append(model)
        return ask(model, day)

    monkeypatch.setattr(listed, "_ask_list", count)
    return found


def test_a_second_command_does_not_load_the_list() -> None:
    said = [
        subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    (first, loaded), (second, loaded_again) = (each.stdout.splitlines() for each in said)
    assert first == second
    assert "Price(input=" in first
    assert (loaded, loaded_again) == ("True", "False")


def test_every_price_is_remembered_as_the_list_says_it(asked: list[str]) -> None:
    models = ["gpt-4o", "gemini-2.5-pro", "anthropic/claude-sonnet-4-5", "our-own"]
    before = [listed.find_listed_tariff(model) for model in models]
    start_anew()
    assert [listed.find_listed_tariff(model) for model in models] == before
    assert asked == models
    assert len(before[1] or ()) > 1  # it has a price for long prompts
    assert before[-1] is None


def test_another_version_of_the_list_is_asked_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed.find_listed_tariff("our-own")
    monkeypatch.setattr(listed, "version", lambda _: "99.0")
    start_anew()
    listed.find_listed_tariff("our-own")
    assert asked == ["our-own", "our-own"]


def test_it_holds_until_a_price_of_the_list_changes(kept: Path) -> None:
    listed.find_listed_tariff("gpt-4o")
    found = json.loads(kept.read_bytes())
    day = date.fromisoformat(found["day"])
    change = day + timedelta(days=60)
    kept.write_text(json.dumps({**found, "until": change.isoformat()}), encoding="utf-8")
    assert remembered.read_excerpt(found["version"], change - timedelta(days=1)) is not None
    assert remembered.read_excerpt(found["version"], change) is None
    assert remembered.read_excerpt(found["version"], day - timedelta(days=1)) is None


def test_prices_of_another_day_are_neither_remembered_nor_taken_from_there(
    asked: list[str],
) -> None:
    now = open_price_list()
    assert now is not None
    now.find_tariff("gpt-4o")
    listed.PriceList(now.version, now.day - timedelta(days=1)).find_tariff("gpt-4o")
    assert asked == ["gpt-4o", "gpt-4o"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"[1]",
        lambda _: b"\xff",
        lambda good: good.replace(b'"day"', b'"when"'),
        lambda good: good.replace(b"2.5", b"-2.5"),
        lambda good: good.replace(b"2.5", b"NaN"),
        lambda good: good.replace(b"2.5", b"true"),
        lambda good: good.replace(b"2.5", b'"2.5"'),
        lambda good: good.replace(b"-1.0", b"5.0"),
        lambda good: good.replace(b"2.5", b"1" + b"0" * 400),
        lambda good: re.sub(rb"\[\[.*?\]\]", b"[]", good),
    ],
)
def test_a_damaged_file_is_as_good_as_none(kept: Path, asked: list[str], damage) -> None:  # type: ignore[no-untyped-def]
    expected = listed.find_listed_tariff("gpt-4o")
    good = kept.read_bytes()
    kept.write_bytes(damage(good))
    assert kept.read_bytes() != good
    start_anew()
    assert listed.find_listed_tariff("gpt-4o") == expected
    assert asked == ["gpt-4o", "gpt-4o"]


def test_the_file_stays_small_and_need_not_be_written(kept: Path) -> None:
    known = listed.open_excerpt()
    for number in range(300):
        known.remember(f"model-{number}", None)
    known.remember("x" * 1000, None)
    assert kept.stat().st_size < 10_000
    assert len(known.tariffs) == 200
    kept.unlink()
    kept.mkdir()
    start_anew()
    assert listed.find_listed_tariff("other") is None
