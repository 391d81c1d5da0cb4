"""What `math_usr` adds to scoring: texts without equations, texts that all differ, real texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from benchmarks.contest import ROOT, by_turns, contestant, largest_difference
from benchmarks.figures import Bar, Figure, versus
from benchmarks.scoring import METRICS, SAME
from benchmarks.workload import Setup

AT_MOST_TWICE = Bar(2)
SHARE = 10  # one row in so many has equations
REFERENCE_SHARE = 50  # the plain reference takes about a millisecond for each
REAL = ROOT.parent / "shared" / "data" / "reasoning"


def of_equations(setup: Setup) -> Iterator[Figure]:
    rows = max(setup.rows // SHARE, 1)
    yield from _compare(setup, setup.file("plain", ".jsonl"), "no “=” in the texts")
    yield from _compare(
        setup, setup.file("equations", ".jsonl", rows), "equations, all texts differ", AT_MOST_TWICE
    )
    if REAL.is_dir():
        path = _repeat_real_texts(setup.folder, rows)
        yield from _compare(setup, path, "equations, real texts", AT_MOST_TWICE)
    yield from _against_reference(setup)


def _compare(setup: Setup, path: Path, texts: str, bar: Bar | None = None) -> Iterator[Figure]:
    """Yield what `math_usr` adds, by processor time, which others on the machine do not change."""
    runs = by_turns(
        setup.rounds,
        without=contestant("calipers", path, *METRICS),
        with_math_usr=contestant("calipers", path, *METRICS, "math_usr"),
        in_python=contestant("calipers_without_library", path, *METRICS, "math_usr"),
    )
    base, costly, in_python = runs["without"], runs["with_math_usr"], runs["in_python"]
    yield Figure(
        name=f"{texts}: with math_usr / without, processor time",
        value=costly.cpu_seconds / base.cpu_seconds,
        bar=bar,
        binding=setup.is_full,
        detail=f"{versus(costly, base)}, {path.stat().st_size / 1e6:,.0f} MB",
    )
    yield Figure(
        name=f"{texts}: the same without the native library",
        value=in_python.cpu_seconds / base.cpu_seconds,
        detail=versus(in_python, base),
    )


def _repeat_real_texts(folder: Path, rows: int) -> Path:
    """Write records with chains of GSM8K, over and over until there are so many."""
    path = folder.resolve() / f"real-equations-{rows}.jsonl"
    if not path.exists():
        lines = [
            line
            for file in sorted(REAL.glob("gsm8k*.jsonl"))
            for line in file.read_text("utf-8").split("\n")
            if line
        ]
        with path.open("w", encoding="utf-8") as file:
            for number, line in enumerate(islice(cycle(lines), rows)):
                file.write(json.dumps(json.loads(line) | {"id": f"task-{number}"}) + "\n")
    return path


def _against_reference(setup: Setup) -> Iterator[Figure]:
    path = setup.file("equations", ".jsonl", max(setup.rows // REFERENCE_SHARE, 1))
    if not Path(ROOT, "tests", "conformance", "reference.py").exists():
        return
    runs = by_turns(
        setup.rounds,
        reference=contestant("reference_equations", path),
        math_usr=contestant("calipers", path, "math_usr"),
    )
    alone, reference = runs["math_usr"], runs["reference"]
    yield Figure(
        name="equations: plain reference / math_usr",
        value=reference.seconds / alone.seconds,
        detail=versus(reference, alone),
    )
    yield Figure(
        name="numbers: math_usr - its reference",
        value=largest_difference(alone.values, reference.values),
        unit="",
        bar=SAME,
        detail="the largest relative difference",
    )
