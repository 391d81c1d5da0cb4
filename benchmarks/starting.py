"""Small work: what an impatient person waits for, beside a Python that does nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Bar, Figure, versus
from benchmarks.processes import ROOT, Runner, Setup, by_turns, calipers, run_process

ABOVE_PYTHON_MS = Bar(150)
SMALL = Bar(0.45)
DEMO = ROOT / "examples" / "arithmetic" / "suite.yaml"
TWO_ROWS = '{"id": "a", "answer": "1", "target": "1"}\n{"id": "b", "answer": "2", "target": "1"}\n'
_ROUNDS = 4  # times those of the workload: short work varies most


def measure_starting(setup: Setup) -> Iterator[Figure]:
    """Start a command, do little, and end."""
    with TemporaryDirectory() as name:
        two = Path(name, "two.jsonl")
        two.write_text(TWO_ROWS, encoding="utf-8")
        runs = by_turns(
            _ROUNDS * setup.rounds,
            {
                "python": _python("pass"),
                "polars": _python("import polars"),
                "help": calipers("--help"),
                "score": calipers("score", two),
            },
        )
    ours, python = runs["help"], runs["python"]
    yield Figure(
        name="calipers --help - python -c pass",
        value=(ours.seconds - python.seconds) * 1000,
        unit="ms",
        bar=ABOVE_PYTHON_MS,
        detail=versus(ours, python),
    )
    yield Figure(
        name="calipers score of two rows",
        value=runs["score"].seconds,
        unit="s",
        bar=SMALL,
        detail=f"beside python -c 'import polars': {versus(runs['score'], runs['polars'])}",
    )
    with TemporaryDirectory() as name:
        demo = by_turns(1, {"run": calipers("run", DEMO, "-o", Path(name, "demo"), accept=(0, 1))})
    yield Figure(
        name="calipers run of the demo, from start to end",
        value=demo["run"].seconds,
        unit="s",
        detail="390 calls of Python functions, one at a time, with gate and report; "
        f"of processors {demo['run'].cpu_seconds:.2f} s",
    )


def _python(program: str) -> Runner:
    return partial(run_process, [sys.executable, "-c", program], environment={})
