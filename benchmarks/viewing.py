"""How soon `calipers view` shows a page, filters it, turns it, and searches; beside Inspect's.

Ours are asked over HTTP, from the start of the process on, with the index already built. The
comparison is made in one browser: until the text of the first sample can be seen, both servers
running. Inspect may have an interpreter of its own: INSPECT_PYTHON.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from re import findall
from time import perf_counter, sleep
from urllib.request import urlopen

from benchmarks.contest import ROOT
from benchmarks.figures import Bar, Figure
from benchmarks.logs import inspect_log, inspect_python
from benchmarks.workload import Setup

FIRST_PAGE = Bar(1.5)
AT_ONCE = Bar(300)
A_LOOK = 2.0  # seconds at the first page, before somebody asks for more
SAMPLES = 2_000  # in the comparison: writing a log of many takes minutes
INSPECT_PORT = 7785
SECONDS = 120

FILTERS = (
    *("model=atlas-small", "correct=false", "latency_ms%3E=500&correct=true"),
    *("model=atlas-small&correct=false&sort=-latency_ms", "sort=total_tokens", "answer~=5"),
)
PAGES = ("page=2", "page=777", "sort=-latency_ms&page=5", "correct=false&page=300")
SEARCHES = ("q=gives+away+697", "q=marbles&correct=false", "q=nothing+of+the+kind")


def of_viewing(setup: Setup) -> Iterator[Figure]:
    folder = _folder(setup, "view", setup.rows)
    with _serving(setup, folder) as (url, _):
        started = perf_counter()
        samples = _indexed(url)
        indexing = perf_counter() - started
    first, work = min(_first_page(setup, folder, samples) for _ in range(setup.rounds))
    yield Figure(
        name=f"calipers view: from start to the first page of {setup.rows:,} records",
        value=first,
        unit="s",
        bar=FIRST_PAGE,
        binding=setup.is_full,
        detail=f"of processors {work:.2f} s; what was left of the first indexing, "
        f"off the clock, took {indexing:.1f} s",
    )
    with _serving(setup, folder) as (url, _):
        _milliseconds(f"{url}{samples}")
        sleep(A_LOOK)
        for name, asked in (
            ("a filter", FILTERS),
            ("a page turned", PAGES),
            ("a search", SEARCHES),
        ):
            times = {each: _milliseconds(f"{url}{samples}?{each}") for each in asked}
            slowest = max(times, key=lambda each: times[each])
            yield Figure(
                name=f"calipers view: {name}, the slowest of {len(asked)}",
                value=times[slowest],
                unit="ms",
                bar=AT_ONCE,
                binding=setup.is_full,
                detail=f"{slowest}; each asked for the first time",
            )
    yield from _beside_inspect(setup)


def _folder(setup: Setup, name: str, rows: int) -> Path:
    """A folder with one file of records; a link out of it would not be followed."""
    source = setup.file("plain", ".jsonl", rows)
    folder = setup.folder.resolve() / f"{name}-{rows}"
    folder.mkdir(exist_ok=True)
    place = folder / "records.jsonl"
    if not (place.exists() and place.stat().st_size == source.stat().st_size):
        place.unlink(missing_ok=True)
        try:
            os.link(source, place)
        except OSError:
            shutil.copyfile(source, place)
    return folder


@contextmanager
def _serving(setup: Setup, folder: Path) -> Iterator[tuple[str, float]]:
    """The dashboard over a folder: its address, and when it was started."""
    command = [sys.executable, "-m", "calipers", "view", str(folder), "--port", "0", "--no-open"]
    cache = {"XDG_CACHE_HOME": str(setup.folder.resolve() / "view-cache")}
    source = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))}
    started = perf_counter()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **source, **cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rstrip("/"), started
        finally:
            process.send_signal(signal.SIGINT)


def _get(url: str) -> str:
    with urlopen(url, timeout=SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def _milliseconds(url: str) -> float:
    started = perf_counter()
    _get(url)
    return (perf_counter() - started) * 1000


def _indexed(url: str) -> str:
    """The path of the samples, once all of them are in the index."""
    path = f"{findall('/runs/[0-9a-f]+', _get(url))[0]}/samples"
    while "being indexed" in _get(f"{url}{path}"):
        sleep(0.2)
    return path


def _first_page(setup: Setup, folder: Path, samples: str) -> tuple[float, float]:
    """Seconds on the clock until the page is there, and those of the processors."""
    before = _work()
    with _serving(setup, folder) as (url, started):
        _get(f"{url}{samples}")
        seconds = perf_counter() - started
    return seconds, _work() - before


def _work() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _beside_inspect(setup: Setup) -> Iterator[Figure]:
    python, chromium = inspect_python(), shutil.which("chromium")
    if python is None or chromium is None or find_spec("playwright") is None:
        return
    folder = _folder(setup, "peer", SAMPLES)
    log = inspect_log(setup, python, folder / "records.jsonl", SAMPLES)
    with _serving(setup, folder) as (url, _), _inspecting(python, log.parent) as theirs:
        ours = f"{url}{_indexed(url)}"
        seen = _seen_in_a_browser(chromium)
        best = {"calipers": float("inf"), "inspect": float("inf")}
        for _ in range(setup.rounds):
            best["calipers"] = min(best["calipers"], seen(ours))
            best["inspect"] = min(best["inspect"], seen(f"{theirs}/#/logs/{log.name}"))
    yield Figure(
        name=f"inspect view / calipers view: {SAMPLES:,} samples until the first is seen",
        value=best["inspect"] / best["calipers"],
        detail=f"{best['inspect']:.2f} s / {best['calipers']:.2f} s in a fresh browser page",
    )


@contextmanager
def _inspecting(python: str, logs: Path) -> Iterator[str]:
    script = Path(python).with_name("inspect")
    url = f"http://127.0.0.1:{INSPECT_PORT}"
    command = [str(script), "view", "start", "--log-dir", str(logs), "--port", str(INSPECT_PORT)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            for _ in range(4 * SECONDS):
                try:
                    _get(url)
                    break
                except OSError:
                    sleep(0.25)
            yield url
        finally:
            process.terminate()


def _seen_in_a_browser(chromium: str) -> Callable[[str], float]:
    """How long it takes until the first sample's text is seen, in a page without any cache."""
    script = (
        "import sys, time\n"
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as play:\n"
        "    browser = play.chromium.launch(executable_path=sys.argv[1], args=sys.argv[3:])\n"
        "    page = browser.new_page()\n"
        "    started = time.perf_counter()\n"
        "    page.goto(sys.argv[2])\n"
        "    page.get_by_text('Chidi buys').first.wait_for(timeout=60000)\n"
        "    print(time.perf_counter() - started)\n"
        "    browser.close()\n"
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

    def seen(url: str) -> float:
        command = [sys.executable, "-c", script, chromium, url, *flags]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return seen
