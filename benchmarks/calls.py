"""What `calipers run` costs beside the calls: its processor time per call, and per run."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.contest import ROOT, by_turns, contestant
from benchmarks.figures import Bar, Figure
from benchmarks.running import open_server, write_suite
from benchmarks.workload import Setup

CALLS, CONNECTIONS, LATENCY = 100_000, 500, 0.005
WORK_MS = Bar(0.15)
SUITE = ROOT / "examples" / "arithmetic" / "suite.yaml"
ROUNDS = 5
FIXED, SMALL = Bar(0.6), Bar(0.35)
TWO_ROWS = '{"id": "a", "answer": "1", "target": "1"}\n{"id": "b", "answer": "2", "target": "1"}\n'


def measure_calls(setup: Setup) -> Iterator[Figure]:
    """Make many short calls over many connections, of a server in a process of its own."""
    calls = CALLS * setup.rows // 1_000_000
    with open_server(LATENCY) as url:
        suite = write_suite(setup.folder, url, calls, CONNECTIONS)
        ours = by_turns(1, calipers=contestant("run", suite))["calipers"]
    yield Figure(
        name=f"calipers run: processor time per call, {calls:,} calls of 5 ms over {CONNECTIONS}",
        value=ours.cpu_seconds / calls * 1000,
        unit="ms",
        bar=WORK_MS,
        binding=setup.is_full,
        detail=f"{ours.seconds:.1f} s by the clock, scoring included; "
        f"peak memory {ours.peak_bytes / 1e6:,.0f} MB",
    )


def measure_small_work(_: Setup) -> Iterator[Figure]:
    """Start the command, do little, and end: what an impatient person waits for."""
    floor = min(_time([sys.executable, "-c", "import polars"])[0] for _ in range(ROUNDS))
    with TemporaryDirectory() as name:
        folder = Path(name)
        records = folder / "two.jsonl"
        records.write_text(TWO_ROWS, encoding="utf-8")
        command = [sys.executable, "-m", "calipers"]
        scoring = [_time([*command, "score", str(records)]) for _ in range(ROUNDS)]
        running = [
            _time([*command, "run", str(SUITE), "-o", str(folder / f"results-{at}")])
            for at in range(ROUNDS)
        ]
    for what, times, bar in (
        ("calipers score of two rows", scoring, SMALL),
        ("calipers run of the demo, report page included", running, FIXED),
    ):
        seconds, work = (min(column) for column in zip(*times, strict=True))
        yield Figure(
            name=what,
            value=seconds,
            unit="s",
            bar=bar,
            detail=f"of processors {work:.2f} s; `python -c 'import polars'` takes {floor:.2f} s",
        )


def _time(command: list[str]) -> tuple[float, float]:
    """Return seconds by the clock and of the processors; a red gate is a result as well."""
    before, started = _children(), perf_counter()
    subprocess.run(
        command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return perf_counter() - started, _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
