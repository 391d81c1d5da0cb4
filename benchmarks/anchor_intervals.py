"""`python -m benchmarks.anchor_intervals`: our intervals beside those of evalstats, on same data.

evalstats is installed into an environment of its own, build/anchors/. For every shape and size the
share of data sets whose 95 % interval holds the true mean, and the mean width, theirs and ours. A
further anchor takes a `Case` with data sets of its own, and a function per side.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.intervals import Interval, bounded_interval, wilson

Array = NDArray[np.float64]
Rng = np.random.Generator

ANCHOR = "evalstats==0.3.3"
ROOT = Path(__file__).resolve().parents[1]
THEIR_SIDE = Path(__file__).with_name("anchor_evalstats.py")
SIZES = (5, 10, 20, 50, 100, 300, 1000)
LEAST = 0.93
CONFIDENCE = 0.95
_SEED = 2026


@dataclass(frozen=True, kw_only=True)
class Case:
    """Data sets of one shape and size: by set, task and run, and the mean they come from."""

    name: str
    draw: Callable[[Rng, int, int], Array]
    truth: float
    sizes: Sequence[int] = SIZES
    binary: bool = False


@dataclass(frozen=True, kw_only=True)
class Side:
    """How often intervals held the true mean, and how wide they were."""

    covered: float
    width: float


def _values(values: Sequence[float], chances: Sequence[float]) -> Callable[[Rng, int, int], Array]:
    return lambda rng, sets, n: rng.choice(values, (sets, n, 1), p=chances)


def _beta(a: float, b: float) -> Callable[[Rng, int, int], Array]:
    return lambda rng, sets, n: rng.beta(a, b, (sets, n, 1))


def _brier(confidence: float, jitter: float) -> Callable[[Rng, int, int], Array]:
    def draw(rng: Rng, sets: int, n: int) -> Array:
        stated = confidence + jitter * (rng.random((sets, n, 1)) - 0.5)
        return np.asarray((stated - (rng.random((sets, n, 1)) < confidence)) ** 2)

    return draw


def _runs(a: float, b: float, runs: int) -> Callable[[Rng, int, int], Array]:
    """Right or wrong, each task with a chance of its own."""
    return lambda rng, sets, n: (rng.random((sets, n, runs)) < rng.beta(a, b, (sets, n, 1))).astype(
        np.float64
    )


def _scores(a: float, b: float, runs: int) -> Callable[[Rng, int, int], Array]:
    def draw(rng: Rng, sets: int, n: int) -> Array:
        own = rng.beta(a, b, (sets, n, 1))
        return np.asarray(np.clip(own + rng.uniform(-0.1, 0.1, (sets, n, runs)) * own, 0, 1))

    return draw


def _brier_mean(confidence: float, jitter: float) -> float:
    return confidence * (1 - confidence) + jitter**2 / 12


CASES = (
    *(
        Case(name=f"rate {p}", draw=_values([0.0, 1.0], [1 - p, p]), truth=p, binary=True)
        for p in (0.5, 0.8, 0.95)
    ),
    Case(name="brier at .99", draw=_brier(0.99, 0.0), truth=_brier_mean(0.99, 0.0)),
    Case(name="brier at .98 to 1", draw=_brier(0.99, 0.02), truth=_brier_mean(0.99, 0.02)),
    Case(name="brier at .85 to .95", draw=_brier(0.9, 0.1), truth=_brier_mean(0.9, 0.1)),
    Case(
        name="ratings mostly at the maximum",
        draw=_values([1.0, 0.75, 0.5, 0.25, 0.0], [0.85, 0.1, 0.03, 0.01, 0.01]),
        truth=0.9425,
    ),
    Case(
        name="ratings in the middle",
        draw=_values([1.0, 0.75, 0.5, 0.25, 0.0], [0.1, 0.2, 0.4, 0.2, 0.1]),
        truth=0.5,
    ),
    Case(name="beta(9, 1)", draw=_beta(9, 1), truth=0.9),
    Case(name="beta(0.5, 4.5)", draw=_beta(0.5, 4.5), truth=0.1),
    Case(name="uniform", draw=_beta(1, 1), truth=0.5),
    Case(name="beta(0.5, 0.5)", draw=_beta(0.5, 0.5), truth=0.5),
    Case(name="right or wrong, 5 runs", draw=_runs(1.4, 0.93, 5), truth=1.4 / 2.33, binary=True),
    Case(name="right or wrong, 5 runs, .9", draw=_runs(2.1, 0.233, 5), truth=0.9, binary=True),
    Case(name="scores, 5 runs", draw=_scores(4, 2, 5), truth=4 / 6),
)


def our_interval(values: Array, *, binary: bool) -> Interval:
    """The interval that `calipers score` gives of runs by task."""
    tasks = len(values)
    mean, n = float(values.mean()), values.size
    spread = float(((values - mean).sum(axis=1) ** 2).sum()) / n**2
    if binary:
        return wilson(mean, n, spread, tasks, CONFIDENCE)
    return bounded_interval(mean, spread, tasks, CONFIDENCE)


def measure(bounds: Sequence[tuple[float, float]], truth: float) -> Side:
    """Return the coverage and mean width of intervals."""
    low, high = np.array(bounds).T
    held = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return Side(covered=float(held.mean()), width=float((high - low).mean()))


def compared(
    cases: Sequence[Case], datasets: int, seed: int = _SEED
) -> Iterator[tuple[Case, int, Side, Side]]:
    """Yield each case and size, theirs and ours."""
    drawn = {f"{case.name} {size}": (case, size) for case in cases for size in case.sizes}
    arrays = {
        name: case.draw(np.random.default_rng([seed, crc32(name.encode())]), datasets, size)
        for name, (case, size) in drawn.items()
    }
    binary = [name for name, (case, _) in drawn.items() if case.binary]
    theirs = their_bounds(environment(ANCHOR), THEIR_SIDE, arrays, binary=binary)
    for name, (case, size) in drawn.items():
        around = (our_interval(each, binary=case.binary) for each in arrays[name])
        ours = [(found.low or 0.0, 1.0 if found.high is None else found.high) for found in around]
        yield case, size, measure(theirs[name], case.truth), measure(ours, case.truth)


def environment(requirement: str) -> Path:
    """Return the Python of an environment that holds the requirement, made where there is none."""
    folder = ROOT / "build" / "anchors" / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, requirement], check=True)
    return python


def their_bounds(
    python: Path, script: Path, arrays: dict[str, Array], **asked: Any
) -> dict[str, list[tuple[float, float]]]:
    """Run their side on the arrays and return, by name, the bounds of each data set."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, allow_pickle=False, **arrays)
        command = [
            str(python),
            str(script),
            str(path),
            json.dumps({"confidence": CONFIDENCE, **asked}),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, list[tuple[float, float]]] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print the table, and exit with 1 where ours hold too seldom or are wider on average."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=300, help="data sets per shape and size")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the data sets")
    arguments = parser.parse_args()
    print("| shape | n | theirs | ours |\n|---|---:|---:|---:|")
    cells, missed = [], []
    slack = 2 * float(np.sqrt(LEAST * (1 - LEAST) / arguments.datasets))
    for case, size, theirs, ours in compared(CASES, arguments.datasets, arguments.seed):
        shown = (f"{side.covered:.3f} ({side.width:.4f})" for side in (theirs, ours))
        print(f"| {case.name} | {size:,} | {' | '.join(shown)} |", flush=True)
        cells.append((theirs, ours))
        if ours.covered < LEAST - slack:
            missed.append(f"{case.name}, n = {size}: {ours.covered:.3f}")
    honest = [(a, b) for a, b in cells if a.covered >= LEAST]
    ratio = sum(b.width for _, b in honest) / sum(a.width for a, _ in honest)
    print(
        f"\ncoverage from {min(a.covered for a, _ in cells):.3f} (theirs), "
        f"{min(b.covered for _, b in cells):.3f} (ours); below {LEAST:.0%}: "
        f"{sum(a.covered < LEAST for a, _ in cells)} and "
        f"{sum(b.covered < LEAST for _, b in cells)} "
        f"of {len(cells)}; ours are {ratio:.3f} times as wide where theirs hold"
    )
    for each in missed:
        print(f"MISS {each}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
