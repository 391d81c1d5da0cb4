"""`python -m benchmarks.anchor_pairs`: intervals of paired differences beside those of evalstats.

Both see the same data sets. How often a 95 % interval holds the true difference, and how wide it is
on average, by shape and number of tasks. evalstats is installed into an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.anchor_intervals import environment
from benchmarks.pair_shapes import SHAPES, SIZES, Floats, PairShape, data_sets, stacked
from calipers.statistics.paired_tasks import PairedTasks, Scale, compare_tasks

PEER = "evalstats==0.3.3"
LEAST = 0.93
SLACK = 2.0  # standard errors of a share that was simulated


@dataclass(frozen=True, kw_only=True)
class Held:
    """How often an interval held the truth, and its mean width."""

    coverage: float
    width: float


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=300, help="data sets per shape and size")
    parser.add_argument("--peer", help="a Python that has evalstats; without it one is set up")
    parser.add_argument("--tasks", type=int, action="append", help="only so many (repeatable)")
    arguments = parser.parse_args()
    peer = arguments.peer or installed()
    rows = list(measured(arguments.datasets, peer, arguments.tasks or SIZES))
    print(_table(rows))
    missed = [f"{name}, {n}" for name, n, ours, _ in rows if _is_missed(ours, arguments.datasets)]
    print("\nbelow as measured, ours:", _below(row[2] for row in rows), end="; ")
    print("theirs:", _below(row[3] for row in rows))
    wider = np.mean([ours.width for _, _, ours, _ in rows])
    theirs = np.mean([other.width for _, _, _, other in rows])
    print(f"\nmean width: ours {wider:.3f}, theirs {theirs:.3f}; below {LEAST}: {missed or 'none'}")
    return 1 if missed or wider > theirs else 0


def _below(sides: Iterator[Held]) -> int:
    return sum(held.coverage < LEAST for held in sides)


def _is_missed(held: Held, count: int) -> bool:
    return held.coverage < LEAST - SLACK * sqrt(LEAST * (1 - LEAST) / count)


def installed() -> str:
    """Return the Python of an environment that has the peer."""
    return str(environment(PEER))


def measured(
    count: int, peer: str, sizes: Sequence[int] = SIZES
) -> Iterator[tuple[str, int, Held, Held]]:
    """Yield shape, number of tasks, and how well ours and theirs held."""
    cases = [(shape, n) for shape in SHAPES for n in sizes]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"{shape.kind}-{number:03}" for number, (shape, _) in enumerate(cases)]
        for name, (shape, n) in zip(names, cases, strict=True):
            np.savez(folder / name, **stacked(data_sets(shape, n, count)))
        script = Path(__file__).with_name("peer_pairs.py")
        subprocess.run([peer, script, folder], check=True, stderr=subprocess.DEVNULL)
        for name, (shape, n) in zip(names, cases, strict=True):
            sets = data_sets(shape, n, count)
            own = np.array([_interval(base, candidate, shape) for base, candidate in sets])
            other = np.load(folder / f"{name}.npy")
            yield shape.name, n, _held(own, shape.truth), _held(other, shape.truth)


def _interval(base: Floats, candidate: Floats, shape: PairShape) -> tuple[float, float]:
    step = 1.0 if shape.kind == "binary" else 0.5
    scale = Scale(yes_or_no=shape.kind == "binary", reach=1.0, step=step, higher_is_better=True)
    squares = [
        np.nansum(np.square(side - np.nanmean(side, axis=1, keepdims=True)), axis=1)
        for side in (base, candidate)
    ]
    tasks = PairedTasks(
        base=np.nanmean(base, axis=1),
        candidate=np.nanmean(candidate, axis=1),
        base_runs=np.isfinite(base).sum(axis=1).astype(np.float64),
        candidate_runs=np.isfinite(candidate).sum(axis=1).astype(np.float64),
        squares=squares[0] + squares[1],
    )
    found = compare_tasks(tasks, scale, weight="task", confidence=0.95, seed=0, resamples=1)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def _held(intervals: Floats, truth: float) -> Held:
    low, high = intervals.T
    return Held(
        coverage=float(np.mean((low <= truth) & (truth <= high))), width=float(np.mean(high - low))
    )


def _table(rows: list[tuple[str, int, Held, Held]]) -> str:
    lines = [
        "| pairs | tasks | ours | width | evalstats | width |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {n:,} | {ours.coverage:.3f} | {ours.width:.3f} "
        f"| {theirs.coverage:.3f} | {theirs.width:.3f} |"
        for name, n, ours, theirs in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
