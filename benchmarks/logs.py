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

from benchmarks.contest import ROOT, by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.workload import Setup

_SAMPLES = 20_000
_OF_ROWS = 5  # of so many records, one is a sample of a large log: 200,000 of a million
_OF_PARSING = Bar(1.5)
_KINDS = {"brief": "in deflate, without events", "whole": "in zstd, with events"}


def of_logs(setup: Setup) -> Iterator[Figure]:
    python = inspect_python()
    if python is None:
        return
    log = inspect_log(setup, python, setup.file("plain", ".jsonl", _SAMPLES), _SAMPLES)
    runs = by_turns(
        setup.rounds,
        calipers=contestant("log", log),
        inspect=contestant("log_inspect", log, python=python),
    )
    ours, theirs = runs["calipers"], runs["inspect"]
    yield Figure(
        name="a log of Inspect: reading it with Inspect / calipers, all metrics",
        value=theirs.seconds / ours.seconds,
        detail=f"{versus(theirs, ours)}, {_SAMPLES:,} samples",
    )
    yield Figure(
        name="the same: peak memory, Inspect / calipers",
        value=theirs.peak_bytes / ours.peak_bytes,
        detail=f"{theirs.peak_bytes / 1e6:,.0f} MB / {ours.peak_bytes / 1e6:,.0f} MB",
    )
    yield Figure(
        name="the same: difference of the accuracies",
        value=largest_difference(ours.values, theirs.values),
        unit="",
    )


def measure_large_logs(setup: Setup) -> Iterator[Figure]:
    """Yield how long scoring takes, against unpacking every sample and parsing its JSON."""
    samples = setup.rows // _OF_ROWS
    records = setup.file("plain", ".jsonl", samples)
    for kind, about in _KINDS.items():
        log = setup.folder.resolve() / f"{kind}-{records.stem}.eval"
        if not log.exists():
            print(f"  generating {log.name}", file=sys.stderr)
            command = [sys.executable, "-m", "benchmarks.eval_log", kind, str(records), str(log)]
            subprocess.run(command, cwd=ROOT, check=True)
        runs = by_turns(
            setup.rounds,
            parsing=contestant("log_parsed", log),
            calipers=contestant("log", log),
        )
        ours, parsing = runs["calipers"], runs["parsing"]
        yield Figure(
            name=f"a log {about}: calipers, all metrics / unpack and parse it",
            value=ours.seconds / parsing.seconds,
            bar=_OF_PARSING,
            binding=setup.is_full,
            detail=f"{versus(ours, parsing)}, {samples:,} samples, {_size(log)}",
        )
        yield Figure(
            name="the same: peak memory of calipers",
            value=ours.peak_bytes / 1e6,
            unit="MB",
        )
        yield Figure(
            name="the same: difference of the accuracies",
            value=largest_difference(ours.values, parsing.values),
            unit="",
        )


def _size(log: Path) -> str:
    return f"{log.stat().st_size / 1e6:,.0f} MB"


def inspect_python() -> str | None:
    """The interpreter that has Inspect, whose pins and ours are best kept apart; if any has."""
    return os.environ.get("INSPECT_PYTHON") or (sys.executable if find_spec("inspect_ai") else None)


def inspect_log(setup: Setup, python: str, records: Path, samples: int) -> Path:
    """The records as a log that Inspect itself wrote, in a folder of its own."""
    logs = setup.folder.resolve() / f"inspect-{samples}"
    log = logs / "2026-01-01T00-00-00+00-00_sums_first.eval"
    if not log.exists():
        logs.mkdir(exist_ok=True)
        writer = Path(__file__).with_name("inspect_log.py")
        subprocess.run([python, writer, records.resolve(), log], check=True, cwd=logs)
    return log
