"""Logs of Inspect scored by us, beside those that only read them: Inspect itself, and plain Python.

Inspect may have an interpreter of its own: INSPECT_PYTHON.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.figures import Bar, Figure, versus
from benchmarks.processes import (
    ROOT,
    Setup,
    by_turns,
    calipers,
    find_largest_difference,
    peer,
)

_SAMPLES = 20_000
_OF_ROWS = 5  # of so many records, one is a sample of a large log: 200,000 of a million
_OF_PARSING = Bar(1.5)
_KINDS = {"brief": "in deflate, without events", "whole": "in zstd, with events"}


def measure_logs(setup: Setup) -> Iterator[Figure]:
    """Score logs, against Inspect reading one and plain Python parsing every sample."""
    if (python := find_inspect()) is not None:
        log = write_log(setup, "whole", _SAMPLES)
        yield from _compare(
            setup, log, "Inspect, reading it", peer("inspect_log", log, python=python)
        )
    for kind, about in _KINDS.items():
        log = write_log(setup, kind, setup.rows // _OF_ROWS)
        called = f"unpacking and parsing it in Python ({about})"
        yield from _compare(setup, log, called, peer("python_log", log), _OF_PARSING)


def _compare(
    setup: Setup, log: Path, called: str, theirs: object, bar: Bar | None = None
) -> Iterator[Figure]:
    runs = by_turns(
        setup.rounds,
        {"calipers": calipers("score", log, "--format", "json"), called: theirs},  # type: ignore[dict-item]
    )
    ours, other = runs["calipers"], runs[called]
    yield Figure(
        name=f"a log of Inspect: calipers, all metrics / {called}",
        value=ours.cpu_seconds / other.cpu_seconds,
        bar=bar,
        binding=setup.is_full,
        detail=f"{versus(ours, other)}, {log.stat().st_size / 1e6:,.0f} MB",
    )
    yield Figure(
        name="the same: difference of the accuracies",
        value=find_largest_difference(ours.read_values(), other.read_values()),
        unit="",
    )


def find_inspect() -> str | None:
    """Return the interpreter that has Inspect, whose pins and ours are best kept apart."""
    return os.environ.get("INSPECT_PYTHON") or (sys.executable if find_spec("inspect_ai") else None)


def write_log(setup: Setup, kind: str, samples: int) -> Path:
    """Return a log packed as Inspect packs it, in a folder of its own."""
    records = setup.file("texts", ".jsonl", samples)
    log = setup.folder.resolve() / f"{kind}-{samples}" / "2026-01-01T00-00-00+00-00_sums_first.eval"
    if not log.exists():
        log.parent.mkdir(exist_ok=True)
        print(f"  generating {log.name}", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.eval_log", kind, str(records), str(log)]
        subprocess.run(command, cwd=ROOT, check=True)
    return log
