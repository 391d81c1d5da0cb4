"""Small work, by the clock: a score of two rows, and what a run takes beside its calls.

A run is measured twice: over HTTP, as most are, where what comes after the calls is loaded while
they wait, and with the functions of the demo, which leave no time for that.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from urllib.request import urlopen

from benchmarks.contest import ROOT
from benchmarks.figures import Bar, Figure
from benchmarks.running import open_server
from benchmarks.workload import Setup

DEMO = ROOT / "examples" / "arithmetic"
FIXED, SMALL = Bar(1.0), Bar(0.45)
LATENCY, CONNECTIONS = 0.1, 32  # as many at a time as a suite that does not say
COMMAND = [sys.executable, "-m", "calipers"]
TWO_ROWS = '{"id": "a", "answer": "1", "target": "1"}\n{"id": "b", "answer": "2", "target": "1"}\n'
# What the suite calls in the solvers' place. The clock is the same in all processes.
TIMED_SOLVERS = """
import atexit
from pathlib import Path
from time import monotonic

import solver

begun, ended = [], []


def careful(record):
    return call(solver.careful, record)


def hasty(record):
    return call(solver.hasty, record)


def call(solve, record):
    begun.append(monotonic())
    try:
        return solve(record)
    finally:
        ended.append(monotonic())


@atexit.register
def write():
    Path(__file__).with_name("seconds").write_text(str(max(ended) - min(begun)))
"""


def measure_small_work(setup: Setup) -> Iterator[Figure]:
    """Start a command, do little, and end: what an impatient person waits for."""
    rounds = range(setup.rounds)
    floor = min(_time([sys.executable, "-c", "import polars"])[0] for _ in rounds)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "two.jsonl").write_text(TWO_ROWS, encoding="utf-8")
        scoring = [_time([*COMMAND, "score", str(folder / "two.jsonl")]) for _ in rounds]
        suite = _write_suite(folder / "demo")
        running = [_time_run(suite, folder / f"results-{at}") for at in rounds]
        with open_server(LATENCY) as url:
            served = _write_served_suite(folder / "served", url)
            waiting = [_time_served_run(served, folder / f"served-{at}", url) for at in rounds]
    seconds, work = (min(column) for column in zip(*scoring, strict=True))
    yield Figure(
        name="calipers score of two rows",
        value=seconds,
        unit="s",
        bar=SMALL,
        detail=f"of processors {work:.2f} s; `python -c 'import polars'` takes {floor:.2f} s",
    )
    beside, in_all, calls, work = min(waiting)
    yield Figure(
        name="calipers run over HTTP beside its calls, report page included",
        value=beside,
        unit="s",
        bar=FIXED,
        detail=f"{in_all:.2f} s less the {calls:.2f} s from the server's first request to its last "
        f"reply: the demo's 390 calls, {LATENCY * 1000:.0f} ms each, {CONNECTIONS} at a time; "
        f"of processors {work:.2f} s",
    )
    beside, in_all, calls, work = min(running)
    yield Figure(
        name="calipers run of the demo, from start to end",
        value=in_all,
        unit="s",
        detail=f"390 calls of Python functions, one at a time: {calls:.2f} s, and {beside:.2f} s "
        f"beside them; of processors {work:.2f} s",
    )


def _write_suite(folder: Path) -> Path:
    """Copy the demo, with solvers that write down how long they were called."""
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    (folder / "timed.py").write_text(TIMED_SOLVERS, encoding="utf-8")
    suite = folder / "suite.yaml"
    written = suite.read_text(encoding="utf-8")
    suite.write_text(written.replace("solver.py:", "timed.py:"), encoding="utf-8")
    return suite


def _write_served_suite(folder: Path, url: str) -> Path:
    """Copy the demo, with models behind HTTP in the solvers' place."""
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    suite = folder / "suite.yaml"
    written = suite.read_text(encoding="utf-8")
    written = re.sub(r"python: solver.py:(\w+)", rf"model: openai:\1\n    base_url: {url}", written)
    written = re.sub(r"concurrency: 1\b", f"concurrency: {CONNECTIONS}", written)
    suite.write_text(written, encoding="utf-8")
    return suite


def _time_served_run(suite: Path, output: Path, url: str) -> tuple[float, float, float, float]:
    """Return seconds beside the calls, in all, of the calls, and of the processors in all."""
    in_all, work = _time([*COMMAND, "run", str(suite), "-o", str(output)])
    with urlopen(f"{url}/seconds") as reply:
        calls = float(json.load(reply))
    return in_all - calls, in_all, calls, work


def _time_run(suite: Path, output: Path) -> tuple[float, float, float, float]:
    """Return seconds beside the calls, in all, of the calls, and of the processors in all."""
    in_all, work = _time([*COMMAND, "run", str(suite), "-o", str(output)])
    calls = float(suite.with_name("seconds").read_text(encoding="utf-8"))
    return in_all - calls, in_all, calls, work


def _time(command: list[str]) -> tuple[float, float]:
    """Return seconds by the clock and of the processors; a red gate is a result as well."""
    before, started = _children(), monotonic()
    subprocess.run(
        command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return monotonic() - started, _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
