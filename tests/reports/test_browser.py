"""Reports in a real browser: figures are drawn, nothing is violated, everybody can read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import calipers as cal
from tests.browser import Watched, browser, needs_browser, watched
from tests.reports.pages_at_hand import hostile_records, records
from tests.reports.test_content import POLICY

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
pytest.importorskip("altair", reason="Altair is not installed (extra `report`)")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "watched"]
pytestmark = needs_browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row | {"tier": tier} for tier in ("T0", "T1", "T2") for row in records()]
    place = tmp_path_factory.mktemp("report") / "report.html"
    return cal.report(rows, policy=POLICY).save(place)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile") / "report.html"
    return cal.report(hostile_records()).save(place)


def opened(watched: Watched, path: Path) -> None:
    watched.page.goto(path.as_uri())
    watched.figures_drawn()


def test_every_figure_is_drawn(watched: Watched, report: Path) -> None:
    opened(watched, report)
    figures = watched.page.locator("figure.vega")
    assert figures.count() >= 5
    assert watched.page.locator("figure.vega .canvas svg").count() == figures.count()
    watched.screenshot("report_wide")


@pytest.mark.parametrize(
    "look", ["light", *(pytest.param(look, marks=pytest.mark.long) for look in ("dark", "phone"))]
)
def test_everybody_can_read_it(watched: Watched, report: Path, look: str) -> None:
    if look == "dark":
        watched.dark()
    if look == "phone":
        watched.phone()
    opened(watched, report)
    watched.page.locator("summary").first.click()
    assert watched.accessibility_findings() == []
    assert watched.overflow() <= 0
    watched.screenshot(f"report_{look}")


@pytest.mark.long
def test_light_and_dark_by_hand(watched: Watched, report: Path) -> None:
    opened(watched, report)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = watched.page.evaluate(colour)
    watched.page.click("[data-toggle-theme]")
    assert watched.page.evaluate(colour) != light
    watched.page.click("[data-toggle-theme]")
    assert watched.page.evaluate(colour) == light


@pytest.mark.long
def test_figures_fit_a_narrower_window(watched: Watched, report: Path) -> None:
    opened(watched, report)
    wide = watched.page.locator("#figure-cost_pass_rate svg").bounding_box()
    watched.phone()
    watched.page.wait_for_function(
        "document.querySelector('#figure-cost_pass_rate svg').getBoundingClientRect().width < 390"
    )
    narrow = watched.page.locator("#figure-cost_pass_rate svg").bounding_box()
    assert wide is not None
    assert narrow is not None
    assert narrow["width"] < wide["width"]


@pytest.mark.long
def test_it_prints(watched: Watched, report: Path, tmp_path: Path) -> None:
    watched.dark()
    opened(watched, report)
    watched.page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    watched.page.emulate_media(media="print")
    ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def test_hostile_records_do_nothing(watched: Watched, hostile: Path) -> None:
    opened(watched, hostile)
    for summary in watched.page.locator("summary").all()[:5]:
        summary.click()
    for figure in watched.page.locator("figure.vega .canvas").all():
        figure.hover()
    watched.page.wait_for_timeout(200)
    assert watched.page.evaluate("window.hacked") is None
    assert watched.page.locator("main img, main script:not([type]), main iframe").count() == 0
    assert watched.accessibility_findings() == []
    watched.screenshot("report_hostile")


def test_without_scripts_the_numbers_are_there(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    told = page.locator("#figure-latency .fallback")
    assert told.is_visible()
    assert "The tables hold the same numbers." in told.inner_text()
    assert page.locator("[data-metric=accuracy] .value").first.is_visible()
    assert not page.locator("[data-toggle-theme]").is_visible()
    context.close()
