"""What a process takes: its time, its processor time and its peak memory, from start to end.

Commands and their peers are measured alike, as processes that take turns, imports on the clock; the
best round of each counts, since a machine's speed drifts. This process stays small: on Linux a
child's peak memory starts from its parent's.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FULL_ROWS = 1_000_000
LIMIT_S = 120  # of processors, after which a process is ended
_PATIENCE = 10  # times the limit by the clock: the machine may be busy, or the process wait
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
# Files of an older recipe are not used.
_RECIPE = zlib.crc32(Path(__file__).with_name("generate.py").read_bytes())

Values = dict[str, dict[str, float | None]]  # by group and metric


@dataclass(frozen=True)
class Run:
    """What a process took, and what it printed."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: bytes = b""
    finished: bool = True  # within the limit

    @property
    def peak_mb(self) -> float:
        """The peak memory in megabytes."""
        return self.peak_bytes / 1e6

    def read_values(self) -> Values:
        """Return the numbers that a peer printed, or those of a score's JSON."""
        printed: dict[str, Any] = json.loads(self.output)
        if "groups" not in printed:
            return printed
        return {
            " ".join(map(str, group["by"].values())) or "all": {
                name: metric["value"] for name, metric in group["metrics"].items()
            }
            for group in printed["groups"]
        }


Runner = Callable[[], Run]


def calipers(*arguments: object, native: bool = True, accept: Iterable[int] = (0,)) -> Runner:
    """Return what runs a command of Calipers, from a fresh process.

    Args:
        *arguments: The command line.
        native: Whether the native library is used, where it is there.
        accept: Exit codes that are results; `gate` has 1 as well.
    """
    changed = {} if native else {"CALIPERS_NATIVE": "0"}
    command = [sys.executable, "-m", "calipers", *map(str, arguments)]
    return partial(run_process, command, environment=changed, accept=tuple(accept))


def peer(name: str, *arguments: object, python: str = sys.executable) -> Runner:
    """Return what runs a program of `benchmarks.peers`, by an interpreter that has its package."""
    return partial(
        run_process, [python, "-m", "benchmarks.peers", name, *map(str, arguments)], environment={}
    )


def run_process(
    command: list[str],
    *,
    environment: Mapping[str, str],
    accept: tuple[int, ...] = (0,),
    limit_s: int = LIMIT_S,
) -> Run:
    """Run a command to its end, or until the limit of processor seconds.

    Raises:
        SystemExit: It failed; what it wrote to standard error is in the message.
    """
    with TemporaryFile() as output, TemporaryFile() as errors:
        started = perf_counter()
        limited = ["sh", "-c", f'ulimit -t {limit_s}; exec "$@"', "sh", *command]
        process = subprocess.Popen(
            limited, cwd=ROOT, stdout=output, stderr=errors, env={**os.environ, **environment}
        )
        limit = Timer(_PATIENCE * limit_s, partial(os.kill, process.pid, signal.SIGKILL))
        limit.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - started
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        finished = process.returncode not in (-signal.SIGKILL, -signal.SIGXCPU)
        if finished and process.returncode not in accept:
            errors.seek(0)
            words = errors.read().decode("utf-8", "replace")[-1000:]
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{words}")
        output.seek(0)
        return Run(
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * _MAXRSS_UNIT,
            output=output.read(),
            finished=finished,
        )


def by_turns(times: int, runners: Mapping[str, Runner]) -> dict[str, Run]:
    """Return each process's shortest times and largest peak over so many rounds."""
    runs: dict[str, list[Run]] = {name: [] for name in runners}
    for _ in range(times):
        for name, runner in runners.items():
            if any(not run.finished for run in runs[name]):
                continue
            runs[name].append(runner())
            last = runs[name][-1]
            print(
                f"  {name}: {last.cpu_seconds:.2f} s of processors, {last.peak_mb:,.0f} MB",
                file=sys.stderr,
            )
    return {
        name: Run(
            seconds=min(run.seconds for run in each),
            cpu_seconds=min(run.cpu_seconds for run in each),
            peak_bytes=max(run.peak_bytes for run in each),
            output=each[-1].output,
            finished=all(run.finished for run in each),
        )
        for name, each in runs.items()
    }


@dataclass(frozen=True)
class Setup:
    """How many rows, how many rounds, and where the files are, made once and off the clock."""

    folder: Path
    rows: int
    rounds: int

    @property
    def is_full(self) -> bool:
        """Whether this is the size that the bars are set for."""
        return self.rows >= FULL_ROWS

    def file(self, kind: str, suffix: str, rows: int | None = None, parts: int = 0) -> Path:
        """Return a file of records, generated in a process of its own unless it is there."""
        rows = rows or self.rows
        name = f"{kind}-{rows}{f'-{parts}' if parts else ''}-{_RECIPE:08x}{suffix}"
        path = self.folder.resolve() / name
        if not path.exists():
            print(f"  generating {path.name}", file=sys.stderr)
            command = [sys.executable, "-m", "benchmarks.generate", kind, str(rows), str(path)]
            subprocess.run([*command, str(parts)], cwd=ROOT, check=True)
        return path


def find_largest_difference(ours: Values, theirs: Values) -> float:
    """Return how far the peer's numbers lie from ours, relative to those above 1.

    It is infinite where we lack one of them.
    """
    return max(
        _compute_difference(ours.get(group, {}).get(name, math.nan), value)
        for group, each in theirs.items()
        for name, value in each.items()
    )


def _compute_difference(a: float | None, b: float | None) -> float:
    if a is None or b is None or math.isnan(a):
        return 0.0 if a is b else math.inf
    return abs(a - b) / max(1.0, abs(a), abs(b))
