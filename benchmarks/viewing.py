"""How soon `calipers view` shows a page, filters it, turns it, and searches; beside Inspect's.

Ours are asked over HTTP. The first opening begins with an empty cache: the first rows, then all of
them. Then the same file is opened once more, from the start of the process on; a list of many runs,
and a comparison of two files. The comparison with Inspect is made in one browser: until the text of
the first sample can be seen, both servers running. Inspect may have an interpreter of its own:
INSPECT_PYTHON.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from re import findall
from time import perf_counter, sleep
from urllib.request import urlopen

from benchmarks.figures import Bar, Figure
from benchmarks.logs import find_inspect, write_log
from benchmarks.processes import ROOT, Setup

FIRST_PAGE = Bar(1.5)
SHOWN, INDEXED = Bar(1.0), Bar(10.0)
LISTED, COMPARED_WITHIN = Bar(0.5), Bar(3.0)
FIRST_ROWS = 400_000  # records opened for the first time
RUNS = 2_000
COMPARED = 200_000  # records on both sides together
MODELS = 4  # of the records made up here
AT_ONCE = Bar(300)
A_LOOK = 2.0  # seconds at the first page, before somebody asks for more
SAMPLES = 2_000  # in the comparison: writing a log of many takes minutes
INSPECT_PORT = 7785
SECONDS = 120

FILTERS = (
    *("model=gpt-4o-mini", "correct=false", "latency_ms%3E=500&correct=true"),
    *("model=gpt-4o-mini&correct=false&sort=-latency_ms", "sort=total_tokens", "answer~=5"),
)
PAGES = ("page=2", "page=777", "sort=-latency_ms&page=5", "correct=false&page=300")
SEARCHES = ("q=gives+away+697", "q=marbles&correct=false", "q=nothing+of+the+kind")


def of_viewing(setup: Setup) -> Iterator[Figure]:
    folder = _folder(setup, "view", setup.rows)
    yield from _first_opening(setup)
    with _serving(setup, folder) as server:
        samples = _indexed(server.url)
    first, work = min(_first_page(setup, folder, samples) for _ in range(setup.rounds))
    yield Figure(
        name=f"calipers view: from start to the first page of {setup.rows:,} records",
        value=first,
        unit="s",
        bar=FIRST_PAGE,
        binding=setup.is_full,
        detail=f"of processors {work:.2f} s; indexed before",
    )
    with _serving(setup, folder) as server:
        url = server.url
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
    yield _list_runs(setup)
    yield _compare_files(setup)
    yield from _beside_inspect(setup)


def _first_opening(setup: Setup) -> Iterator[Figure]:
    """With an empty cache: the first rows, and all of them, from the first request on."""
    rows = min(setup.rows, FIRST_ROWS)
    folder = _folder(setup, "first", rows)
    shutil.rmtree(setup.folder.resolve() / "view-cache", ignore_errors=True)
    with _serving(setup, folder) as server:
        path = f"{server.url}{findall('/runs/[0-9a-f]+', _get(server.url))[0]}/samples"
        started, before = perf_counter(), server.work()
        while "<tbody>" not in (page := _get(path)):
            sleep(0.05)
        first = perf_counter() - started, server.work() - before
        while "being indexed" in page:
            sleep(0.1)
            page = _get(path)
        whole = perf_counter() - started, server.work() - before
    for name, (value, work), bar in (
        ("the first rows", first, SHOWN),
        ("all indexed", whole, INDEXED),
    ):
        yield Figure(
            name=f"calipers view: the first opening of {rows:,} records, {name}",
            value=value,
            unit="s",
            bar=bar,
            binding=setup.is_full,
            detail=f"of processors {work:.2f} s; from the first request on, with an empty cache",
        )


def _list_runs(setup: Setup) -> Figure:
    """A folder of many result folders, listed by a process that has just been started."""
    folder = setup.folder.resolve() / "view-runs"
    if not folder.is_dir():
        made = setup.folder.resolve() / "view-run"
        suite = ROOT / "examples" / "arithmetic" / "suite.yaml"
        command = [sys.executable, "-m", "calipers", "run", str(suite), "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        for number in range(RUNS):
            place = folder / f"suite-{number % 5}" / f"run-{number:04}"
            shutil.copytree(made, place, ignore=shutil.ignore_patterns("report.html", ".lock"))
    for place in folder.rglob("*.json"):  # the disk is not what is measured
        place.read_bytes()
    with _serving(setup, folder) as server:
        before = server.work()
        first = _milliseconds(server.url)
        work = server.work() - before
        sleep(A_LOOK)
        again = _milliseconds(server.url)
    return Figure(
        name=f"calipers view: a list of {RUNS:,} runs",
        value=first / 1000,
        unit="s",
        bar=LISTED,
        binding=setup.is_full,
        detail=f"of processors {work:.2f} s; the first request, the next {again / 1000:.2f} s",
    )


def _compare_files(setup: Setup) -> Figure:
    """Two files of the same tasks and models, both indexed."""
    rows = min(setup.rows, COMPARED) // 2
    folder = _folder(setup, "compare", rows)
    other = folder / "other.jsonl"
    if not other.exists():
        # Any other answers to the same tasks will do: those of the next record of the model.
        lines = [json.loads(line) for line in (folder / "records.jsonl").open(encoding="utf-8")]
        with other.open("w", encoding="utf-8") as file:
            for line, later in zip(lines, lines[MODELS:] + lines[:MODELS], strict=True):
                kept = {name: line[name] for name in ("id", "model", "input", "target")}
                file.write(json.dumps({**later, **kept}) + "\n")
    with _serving(setup, folder) as server:
        url = server.url
        runs = list(dict.fromkeys(findall("/runs/([0-9a-f]+)", _get(url))))
        for run in runs:
            while "being indexed" in _get(f"{url}/runs/{run}/samples"):
                sleep(0.2)
        sleep(A_LOOK)  # columns are read ahead
        before = server.work()
        took = _milliseconds(f"{url}/compare?base={runs[0]}&candidate={runs[1]}")
        work = server.work() - before
    return Figure(
        name=f"calipers view: two files of {rows:,} records compared",
        value=took / 1000,
        unit="s",
        bar=COMPARED_WITHIN,
        binding=setup.is_full,
        detail=f"of processors {work:.2f} s; all metrics, with intervals and the tasks that "
        "flipped; both indexed before",
    )


def _folder(setup: Setup, name: str, rows: int) -> Path:
    """A folder with one file of records; a link out of it would not be followed."""
    source = setup.file("texts", ".jsonl", rows)
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


@dataclass(frozen=True)
class Server:
    """A dashboard that runs: its address, when it was started, and its process."""

    url: str
    started: float
    pid: int

    def work(self) -> float:
        """Seconds of processors that it has used so far; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _serving(setup: Setup, folder: Path) -> Iterator[Server]:
    """The dashboard over a folder."""
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
            url = process.stdout.readline().strip().rstrip("/")
            yield Server(url, started, process.pid)
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
    with _serving(setup, folder) as server:
        _get(f"{server.url}{samples}")
        seconds = perf_counter() - server.started
    return seconds, _work() - before


def _work() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _beside_inspect(setup: Setup) -> Iterator[Figure]:
    python, chromium = find_inspect(), shutil.which("chromium")
    if python is None or chromium is None or find_spec("playwright") is None:
        return
    folder = _folder(setup, "peer", SAMPLES)
    log = write_log(setup, "whole", SAMPLES)
    with _serving(setup, folder) as server, _inspecting(python, log.parent) as theirs:
        ours = f"{server.url}{_indexed(server.url)}"
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
        "    page.get_by_text('by the end of week').first.wait_for(timeout=60000)\n"
        "    print(time.perf_counter() - started)\n"
        "    browser.close()\n"
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

    def seen(url: str) -> float:
        command = [sys.executable, "-c", script, chromium, url, *flags]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return seen
