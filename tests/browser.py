"""A real browser for tests of pages: whatever a page must not do makes the test fail.

    @needs_browser
    def test_a_page(watched: Watched) -> None:
        watched.page.goto(address)
        watched.screenshot("a_page")

A module that uses it imports the fixtures: `from tests.browser import browser, watched`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

ROOT = Path(__file__).resolve().parents[1]
SCREENSHOTS = ROOT / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
GRAVE = ("serious", "critical")

_WATCH_POLICY = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="there is no Chromium, or no playwright, to open pages with",
)


@dataclass
class Watched:
    """A page, and everything it did that it must not do."""

    page: Page
    wrongs: list[str] = field(default_factory=list)

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page as `build/screenshots/NAME.png`, where one is asked for.

        SCREENSHOTS=1 make test: each takes as long as the page itself.
        """
        if "SCREENSHOTS" in os.environ:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def dark(self) -> None:
        """As on a system that is set to dark."""
        self.page.emulate_media(color_scheme="dark")

    def phone(self) -> None:
        """As on a small screen."""
        self.page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})

    def figures_drawn(self, timeout: float = 120_000) -> None:
        """Wait until every figure that can be seen is drawn."""
        pending = "figure.vega[data-spec]:not([data-drawn])"
        self.page.wait_for_function(
            f"() => [...document.querySelectorAll('{pending}')].every(e => !e.offsetParent)",
            timeout=timeout,
        )

    def accessibility_findings(self) -> list[str]:
        """What axe finds that is serious or critical."""
        from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

        found: dict[str, Any] = Axe().run(self.page).response
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]}"
            for each in found["violations"]
            if each["impact"] in GRAVE
            for node in each["nodes"][:3]
        ]

    def overflow(self) -> int:
        """How many pixels the page is wider than the screen."""
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(wider))

    def check(self) -> None:
        """Fail on an error, a dialog, a broken rule of the content policy, a request outside."""
        violations = self.page.evaluate("window.__violations || []")
        wrongs = [*self.wrongs, *(f"content policy: {each}" for each in violations)]
        assert wrongs == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once for a module; two at a time cannot be in one process."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A fresh page; when the test ends, it must have done nothing wrong."""
    context = browser.new_context(viewport={"width": WIDE["width"], "height": WIDE["height"]})
    page = context.new_page()
    seen = Watched(page)
    page.set_default_timeout(120_000)  # on a busy machine a page may take long
    page.add_init_script(_WATCH_POLICY)
    page.on("pageerror", lambda error: seen.wrongs.append(f"error: {error}"))
    page.on("console", lambda said: _hear(seen, said.type, said.text))
    page.on("dialog", lambda dialog: _dismiss(seen, dialog))
    page.on("request", lambda request: _note_outside(seen, request.url))
    yield seen
    try:
        seen.check()
    finally:
        context.close()


def _dismiss(seen: Watched, dialog: Dialog) -> None:
    seen.wrongs.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _hear(seen: Watched, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        seen.wrongs.append(f"console: {text}")


def _note_outside(seen: Watched, address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("file", "data", "blob", "about") and parts.hostname not in (
        "127.0.0.1",
        "localhost",
    ):
        seen.wrongs.append(f"request: {address}")


def settled(watched: Watched) -> None:
    """Wait until all parts of the page have come and every figure is drawn."""
    watched.page.wait_for_load_state("networkidle")
    watched.page.wait_for_function("() => !document.querySelector('.htmx-request')")
    watched.page.wait_for_function(
        "() => ![...document.querySelectorAll('.state')].some(e => /…$/.test(e.textContent.trim()))",
        timeout=120_000,
    )
    watched.figures_drawn()
