"""How long `calipers --help` takes, against a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.contest import ROOT
from benchmarks.figures import Bar, Figure
from benchmarks.workload import Setup

ABOVE_PYTHON_MS = Bar(150)


def of_help(setup: Setup) -> Iterator[Figure]:
    script = Path(sys.executable).with_name("calipers")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "calipers"]
    times = [
        (_milliseconds([*command, "--help"]), _milliseconds([sys.executable, "-c", "pass"]))
        for _ in range(setup.rounds)
    ]
    ours, python = (min(column) for column in zip(*times, strict=True))
    yield Figure(
        name="calipers --help - python -c pass",
        value=ours - python,
        unit="ms",
        bar=ABOVE_PYTHON_MS,
        detail=f"{ours:.0f} ms - {python:.0f} ms, {ours / python:.1f} times as long",
    )


def _milliseconds(command: Sequence[str]) -> float:
    started = perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return (perf_counter() - started) * 1000
