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
RULE, WITHOUT = 'if status == "packed"', "if True"  # what the order desk forgets
TRIED = ("report", RUN, "--policy", "examples/arithmetic/policy.yaml", "--sabotage", "-o")
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
        tried = Path("sabotage.html").absolute()
        CliRunner().invoke(app, [*TRIED, str(tried)])
        red, prompts, own = run_red_check(), run_prompts(), start_from_table()
        logs = report_logs()
        call("init", "desk", "--template", "judge")
        call("run", "desk/suite.yaml", "-o", "judged/desk")
        with open_page() as page, serve_dashboard("results") as address:
            draw(page, red.as_uri(), folder / "red-check.png", height=620)
            draw(page, prompts.as_uri(), folder / "prompts.png", height=700)
            draw(page, own.as_uri(), folder / "own-data.png", height=640)
            draw(page, report.as_uri(), folder / "report.png")
            draw(page, f"{tried.as_uri()}#sabotage", folder / "sabotage.png")
            draw(page, logs.as_uri(), folder / "logs.png", height=640)
            draw(page, address, folder / "dashboard.png", click="main a[href*='runs/']")
            with serve_dashboard("judged") as judged:
                page.goto(judged)
                page.click("main a[href*='runs/']")
                page.click("nav a[href$='/judges']")
                draw(page, page.url, folder / "judges.png", height=620)
            with serve_dashboard("desk", "--rate", "ratings.jsonl") as rated:
                page.goto(rated)
                page.fill("input[name=rater]", "Mia")
                page.click("button:has-text('Begin')")
                draw(page, page.url, folder / "rate.png", height=620)


def call(*words: str) -> None:
    """Run a command; its exit code may be that of a red build."""
    done = CliRunner().invoke(app, list(words))
    if done.exit_code not in (0, 1):
        sys.exit(done.output)


def run_red_check() -> Path:
    """Return the report of the tutorial's agent, which forgets a rule."""
    call("init", "evals")
    agent = Path("evals/agent.py")
    agent.write_text(agent.read_text(encoding="utf-8").replace(RULE, WITHOUT), encoding="utf-8")
    call("run", "evals/suite.yaml", "-o", "red")
    return Path("red/report.html").absolute()


def run_prompts() -> Path:
    """Return the report of two prompts."""
    call("init", "prompts", "--template", "prompts")
    call("run", "prompts/suite.yaml", "-o", "compared")
    return Path("compared/report.html").absolute()


def start_from_table() -> Path:
    """Return the report of somebody's own table, with the policy that was made of it."""
    writer = "examples/systems/write_answers.py"
    subprocess.run([sys.executable, writer], check=True)  # noqa: S603
    call("init", "mine", "--from", "answers.csv", "--yes")
    call("report", "mine/records.parquet", "--policy", "mine/policy.yaml", "-o", "mine.html")
    return Path("mine.html").absolute()


def report_logs() -> Path:
    """Return the report of logs that another tool wrote."""
    subprocess.run([sys.executable, "examples/logs/write_logs.py", "-o", "logs"], check=True)
    read = ("logs/inspect/careful.json", "logs/inspect/hasty.json", "--by", "model")
    call("report", *read, "--policy", "examples/logs/policy.yaml", "-o", "logs.html")
    return Path("logs.html").absolute()


def draw(
    page: Page, address: str, path: Path, *, click: str | None = None, height: int = 760
) -> None:
    """Write a picture of a page's upper part; SystemExit where it is too large."""
    page.set_viewport_size({"width": SIZE["width"], "height": height})
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
def serve_dashboard(folder: str, *options: str) -> Iterator[str]:
    """Yield the address of the dashboard of a folder."""
    view = ("view", folder, *options, "--no-open", "--port", "0")
    command = [sys.executable, "-m", "calipers", *view]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


if __name__ == "__main__":
    main()
