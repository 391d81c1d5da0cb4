"""Pictures of the report and the dashboard, from the demo's records.

    python -m tools.pictures docs/pictures        (make pictures; needs Chromium)

Nothing outside this machine is asked: the example's solvers are Python functions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from calipers.cli import app
from tools.console import prepare_folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

SUITE = "examples/arithmetic/suite.yaml"
RUN = "results/arithmetic"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SIZE: Any = {"width": 1180, "height": 760}
LARGEST = 200_000  # bytes of a picture in the README


def main() -> None:
    """Draw the pictures into the folder named on the command line."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, chdir(work):  # pages name paths as they were given
        prepare_folder(Path(work))
        done = CliRunner().invoke(app, ["run", SUITE, "-o", RUN])
        report = Path(RUN, "report.html").absolute()
        if not report.exists():
            sys.exit(done.output)
        with open_page() as page, serve_dashboard("results") as address:
            draw(page, report.as_uri(), folder / "report.png")
            draw(page, address, folder / "dashboard.png", click="main a[href*='runs/']")


def draw(page: Page, address: str, path: Path, *, click: str | None = None) -> None:
    """Write a picture of a page's upper part; SystemExit where it is too large."""
    page.goto(address)
    if click is not None:
        page.click(click)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(2000)  # figures are drawn by scripts
    page.screenshot(path=path)
    if path.stat().st_size > LARGEST:
        sys.exit(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


@contextmanager
def open_page() -> Iterator[Page]:
    """Yield a page of a browser."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (of the tests' environment)

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no Chromium to draw the pictures with")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser.new_page(viewport=SIZE)
        browser.close()


@contextmanager
def serve_dashboard(folder: str) -> Iterator[str]:
    """Yield the address of the dashboard of a folder."""
    command = [sys.executable, "-m", "calipers", "view", folder, "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


if __name__ == "__main__":
    main()
