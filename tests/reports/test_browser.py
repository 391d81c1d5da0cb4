"""Reports in a real browser: figures are drawn, nothing is violated, everybody can read them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import calipers as cal
from tests.browser import Watched, browser, needs_browser, watched
from tests.reports.pages_at_hand import hostile_records, records
from tests.reports.test_content import POLICY
from tests.shared_data import FOLDER, needs_shared_data

pytest.importorskip("jinja2", reason="Jinja is not installed (extra `report`)")
pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra `report`)")

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
    watched.page.evaluate("document.querySelectorAll('details.fold').forEach(e => e.open = true)")
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
    watched.page.locator(".sample > summary").first.click()
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
    page.locator("#figures > summary").click()
    told = page.locator("#figure-latency .fallback")
    assert told.is_visible()
    assert "The tables hold the same numbers." in told.inner_text()
    assert page.locator(".first-table td").first.is_visible()
    assert not page.locator("[data-toggle-theme]").is_visible()
    context.close()


# --- records of other shapes ---


def make_twenty_models() -> list[dict[str, Any]]:
    """Twenty models with long names, some calls failed or truncated."""
    chance = random.Random(3)
    return [
        {
            "id": f"task-{task:03}",
            "model": f"vendor-{number % 5}/a-model-with-a-long-name-{number:02}-instruct",
            "category": ("algebra", "geometry", "logic", "words")[task % 4],
            "target": str(task),
            "answer": str(task if chance.random() < 0.3 + 0.03 * number else task + 1),
            "prob_correct": round(chance.random(), 2),
            "latency_ms": 200 + 500 * chance.random(),
            "cost_usd": 0.001 * (1 + number) * (0.5 + chance.random()),
            "finish_reason": "length" if chance.random() < 0.02 else "stop",
            "error": "timeout: 60 s" if chance.random() < 0.02 else None,
        }
        for number in range(20)
        for task in range(40)
    ]


def make_agents() -> list[dict[str, Any]]:
    """Runs of agents with traces, which have a composite and recommendations."""
    calls = [{"tool_name": name, "success": True} for name in ("search", "read", "write")]
    return [
        {
            "id": str(n % 6),
            "model": model,
            "run": n // 6,
            "trace": {"tool_calls": calls[: 1 + n % 3]},
            "duration_seconds": 1 + n,
            "answer": "x",
            "target": "x" if n % 4 else "y",
        }
        for model in ("planner", "worker")
        for n in range(12)
    ]


def read_tiers() -> Any:
    return FOLDER / "agent_runs" / "scylla_haiku_runs.jsonl"


def read_logs() -> Any:
    return sorted(str(path) for path in (FOLDER / "native_logs" / "inspect").iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "options"),
    [
        pytest.param(make_twenty_models, {}, id="twenty_models"),
        pytest.param(make_agents, {}, id="agents", marks=pytest.mark.long),
        pytest.param(
            read_tiers,
            {"map": {"id": "task"}, "on_bad": "skip"},
            id="tiers",
            marks=[pytest.mark.long, needs_shared_data],
        ),
        pytest.param(read_logs, {}, id="logs", marks=[pytest.mark.long, needs_shared_data]),
    ],
)
def test_records_of_any_shape_fit_every_screen(
    watched: Watched,
    tmp_path: Path,
    make: Callable[[], Any],
    options: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    page = cal.report(make(), **options).save(tmp_path / "report.html")
    name = request.node.callspec.id
    for look in ("wide", "phone"):
        if look == "phone":
            watched.phone()
            watched.dark()
        opened(watched, page)
        assert watched.overflow() <= 0
        assert watched.accessibility_findings() == []
        watched.screenshot(f"report_{name}_{look}")
