"""Two systems compared task by task, against SciPy's paired bootstrap of one metric."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contest import Run, by_turns, contestant
from benchmarks.figures import Bar, Figure
from benchmarks.generate import MODELS
from benchmarks.workload import Setup

FEW, MANY = 5_000, 500_000  # tasks
FEW_SECONDS, MANY_SECONDS = Bar(1.5), Bar(12.0)


def measure_comparing(setup: Setup) -> Iterator[Figure]:
    """Compare default metrics with intervals and tests, by the clock."""
    for tasks, bar in ((FEW, FEW_SECONDS), (MANY * setup.rows // 1_000_000, MANY_SECONDS)):
        base, candidate = _two_systems(setup, tasks)
        runners = {"calipers": contestant("compare", base, str(candidate))}
        if tasks == FEW:
            runners["scipy"] = contestant("scipy_pairs", base, str(candidate))
        runs = by_turns(setup.rounds, **runners)
        ours = runs["calipers"]
        yield Figure(
            name=f"compare, default metrics, {tasks:,} tasks",
            value=ours.seconds,
            unit="s",
            bar=bar,
            binding=setup.is_full,
            detail=_show(ours),
        )
        if "scipy" in runs:
            yield Figure(
                name="the same: SciPy's paired bootstrap of accuracy alone / calipers",
                value=runs["scipy"].seconds / ours.seconds,
                detail=f"{runs['scipy'].seconds:.2f} s / {ours.seconds:.2f} s, 9,999 resamples",
            )


def _two_systems(setup: Setup, tasks: int) -> tuple[Path, Path]:
    rows = tasks * len(MODELS)
    base, candidate = (setup.file(model, ".parquet", rows) for model in MODELS[:2])
    return base, candidate


def _show(run: Run) -> str:
    return f"of processors {run.cpu_seconds:.2f} s, peak memory {run.peak_bytes / 1e6:,.0f} MB"
