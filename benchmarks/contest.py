"""Run contestants by turns and keep the best of each, since a machine's speed drifts.

This process stays small: on Linux a child's peak memory starts from its parent's.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.contestants import Values

ROOT = Path(__file__).parent.parent
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Run:
    """What a contestant took, and the numbers it gave."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    values: Values


Runner = Callable[[], Run]


def contestant(name: str, path: Path, *metrics: str, python: str = sys.executable) -> Runner:
    """Make a contestant ready to run on a file, by an interpreter that has what it needs."""
    return partial(_run, name, path, metrics, python)


def _run(name: str, path: Path, metrics: tuple[str, ...], python: str) -> Run:
    command = [python, "-m", "benchmarks.contestants", name, str(path), *metrics]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} failed on {path.name} with exit code {process.returncode}")
    result = json.loads(output)
    return Run(
        seconds=result["seconds"],
        cpu_seconds=result["cpu_seconds"],
        peak_bytes=usage.ru_maxrss * _MAXRSS_UNIT,
        values=result["values"],
    )


def by_turns(times: int, **runners: Runner) -> dict[str, Run]:
    """Each contestant's shortest times and largest peak over so many rounds."""
    runs: dict[str, list[Run]] = {name: [] for name in runners}
    for _ in range(times):
        for name, runner in runners.items():
            runs[name].append(runner())
            print(f"  {name}: {runs[name][-1].seconds:.2f} s", file=sys.stderr)
    return {
        name: Run(
            seconds=min(run.seconds for run in each),
            cpu_seconds=min(run.cpu_seconds for run in each),
            peak_bytes=max(run.peak_bytes for run in each),
            values=each[-1].values,
        )
        for name, each in runs.items()
    }


def largest_difference(ours: Values, theirs: Values) -> float:
    """How far numbers lie apart, relative to those above 1; infinite if one side lacks any."""
    if {model: set(each) for model, each in ours.items()} != {
        model: set(each) for model, each in theirs.items()
    }:
        return math.inf
    return max(
        _difference(value, theirs[model][name])
        for model, each in ours.items()
        for name, value in each.items()
    )


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    return abs(a - b) / max(1.0, abs(a), abs(b))
