"""How near `calipers run` comes to the speed limit, against Inspect, and what it takes per call.

The limit: CALLS calls of LATENCY seconds, CONNECTIONS at a time, can take no less than
CALLS * LATENCY / CONNECTIONS. The model server has a process of its own. Inspect is measured with
its defaults and with its fastest settings; the detail names them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Bar, Figure, versus
from benchmarks.logs import find_inspect
from benchmarks.processes import ROOT, Run, Runner, Setup, by_turns, calipers, peer

CALLS, CONNECTIONS, LATENCY = 2_000, 100, 0.05
LIMIT = CALLS * LATENCY / CONNECTIONS
MANY_CALLS, MANY_CONNECTIONS, SHORT_LATENCY = 100_000, 500, 0.005

NEAR_THE_LIMIT = Bar(3)
FASTER_THAN_INSPECT = Bar(5, at_least=True)
WORK_MS = Bar(0.35)
FLAT = Bar(1.5)

# What its `eval` is told beside the connections; all have `display="none"`.
INSPECT: dict[str, dict[str, object]] = {
    "its defaults": {},
    "log_realtime=False": {"log_realtime": False},
    "its fastest: log_realtime=False, log_buffer=100,000, score_display=False": {
        "log_realtime": False,
        "log_buffer": 100_000,
        "score_display": False,
    },
    "keeping no samples besides: log_samples=False": {
        "log_realtime": False,
        "log_buffer": 100_000,
        "score_display": False,
        "log_samples": False,
    },
}


def measure_running(setup: Setup) -> Iterator[Figure]:
    """Make calls with Calipers and with Inspect, each a process from its start to its score."""
    with open_server(LATENCY) as url:
        suite = write_suite(setup.folder, url, CALLS)
        runners: dict[str, Runner] = {"calipers": _run(setup, suite)}
        if (python := find_inspect()) is not None:
            runners |= {
                name: peer("inspect_run", suite, json.dumps(settings), python=python)
                for name, settings in INSPECT.items()
            }
        runs = by_turns(setup.rounds, runners)
    ours = runs.pop("calipers")
    work = f"{CALLS:,} calls of {LATENCY * 1000:.0f} ms, {CONNECTIONS} at a time"
    yield Figure(
        name=f"{work}: calipers run / the limit",
        value=ours.seconds / LIMIT,
        bar=NEAR_THE_LIMIT,
        detail=f"{ours.seconds:.2f} s / {LIMIT:.2f} s, start and score included; of processors "
        f"{ours.cpu_seconds:.2f} s",
    )
    for settings, theirs in runs.items():
        yield Figure(
            name=f"{work}: Inspect ({settings}) / calipers run, by the clock",
            value=theirs.seconds / ours.seconds,
            bar=FASTER_THAN_INSPECT if "samples" not in settings else None,
            detail=versus(theirs, ours),
        )


def measure_calls(setup: Setup) -> Iterator[Figure]:
    """Make many short calls over many connections: processor time per call, and memory."""
    calls = MANY_CALLS * setup.rows // 1_000_000
    runs: dict[int, Run] = {}
    with open_server(SHORT_LATENCY) as url:
        for number in (max(calls // 10, 1), calls):
            suite = write_suite(setup.folder, url, number, MANY_CONNECTIONS)
            runs[number] = by_turns(1, {f"{number:,} calls": _run(setup, suite)})[
                f"{number:,} calls"
            ]
    few, ours = runs.values()
    yield Figure(
        name=f"calipers run: processor time per call, {calls:,} calls of 5 ms over "
        f"{MANY_CONNECTIONS}",
        value=ours.cpu_seconds / calls * 1000,
        unit="ms",
        bar=WORK_MS,
        binding=setup.is_full,
        detail=f"{ours.seconds:.1f} s by the clock, start and score included; "
        f"{ours.peak_mb:,.0f} MB",
    )
    yield Figure(
        name="calipers run: peak memory, 10 times the calls / calls",
        value=ours.peak_bytes / few.peak_bytes,
        bar=FLAT,
        detail=f"{ours.peak_mb:,.0f} MB / {few.peak_mb:,.0f} MB",
    )


def _run(setup: Setup, suite: Path) -> Runner:
    """Return what runs a suite into an empty folder."""
    output = setup.folder.resolve() / "run-results"
    command = calipers("run", suite, "-o", output, "--no-report")

    def run() -> Run:
        shutil.rmtree(output, ignore_errors=True)
        return command()

    return run


@contextmanager
def open_server(latency: float) -> Iterator[str]:
    """Serve the model from a process of its own, and give its address."""
    command = [sys.executable, "-m", "benchmarks.model_server", "--port", "0"]
    with subprocess.Popen(
        [*command, "--latency", str(latency)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def write_suite(folder: Path, url: str, calls: int, connections: int = CONNECTIONS) -> Path:
    """Write a suite of that many tasks; its results are another folder every time."""
    data = folder.resolve() / f"sums-{calls}.jsonl"
    tasks = ({"id": f"t{n}", "input": f"{n} + 1", "target": str(n + 1)} for n in range(calls))
    data.write_text("".join(f"{json.dumps(task)}\n" for task in tasks), encoding="utf-8")
    suite = {
        "name": "sums",
        "data": data.name,
        "prompt": "{input}\nThink step by step. End with: ANSWER: <answer>",
        "answer": {"after": "ANSWER:"},
        "systems": [{"name": "tiny", "model": "openai:tiny", "base_url": url}],
        "concurrency": connections,
    }
    path = folder.resolve() / f"sums-{calls}.json"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path
