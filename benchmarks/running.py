"""How near `calipers run` comes to the speed limit, against Inspect, and what memory it takes.

The limit: CALLS calls of LATENCY seconds, CONNECTIONS at a time, can take no less than
CALLS * LATENCY / CONNECTIONS. The model server has a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contest import ROOT, by_turns, contestant
from benchmarks.figures import Bar, Figure, versus
from benchmarks.logs import inspect_python
from benchmarks.workload import Setup

CALLS = 2_000
CONNECTIONS = 100
LATENCY = 0.05
LIMIT = CALLS * LATENCY / CONNECTIONS
MORE_CALLS = 10 * CALLS

NEAR_THE_LIMIT = Bar(3)
FASTER_THAN_INSPECT = Bar(8, at_least=True)
FLAT = Bar(1.5)


def of_running(setup: Setup) -> Iterator[Figure]:
    with open_server(LATENCY) as url:
        runners = {"calipers": contestant("run", write_suite(setup.folder, url, CALLS))}
        if (python := inspect_python()) is not None:
            suite = write_suite(setup.folder, url, CALLS)
            runners["inspect"] = contestant("inspect", suite, python=python)
        runs = by_turns(setup.rounds, **runners)
    ours = runs["calipers"]
    work = f"{CALLS:,} calls, {CONNECTIONS} at a time"
    yield Figure(
        name=f"{work}: calipers run / the limit",
        value=ours.seconds / LIMIT,
        bar=NEAR_THE_LIMIT,
        detail=f"{ours.seconds:.2f} s / {LIMIT:.2f} s, of processors {ours.cpu_seconds:.2f} s",
    )
    if "inspect" in runs:
        yield Figure(
            name=f"{work}: Inspect / calipers run",
            value=runs["inspect"].seconds / ours.seconds,
            bar=FASTER_THAN_INSPECT,
            detail=versus(runs["inspect"], ours),
        )


def of_running_longer(setup: Setup) -> Iterator[Figure]:
    with open_server(0.0) as url:
        runs = by_turns(
            1,
            few=contestant("run", write_suite(setup.folder, url, CALLS)),
            many=contestant("run", write_suite(setup.folder, url, MORE_CALLS)),
        )
    few, many = runs["few"], runs["many"]
    yield Figure(
        name="calipers run: peak memory, 10 times the calls / calls",
        value=many.peak_bytes / few.peak_bytes,
        bar=FLAT,
        detail=f"{many.peak_bytes / 1e6:,.0f} MB / {few.peak_bytes / 1e6:,.0f} MB, "
        f"{MORE_CALLS:,} calls / {CALLS:,}",
    )


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
    data = folder / f"sums-{calls}.jsonl"
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
    path = folder / f"sums-{calls}.json"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path
