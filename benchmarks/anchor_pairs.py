"""`python -m benchmarks.anchor_pairs`: intervals of paired differences beside those of evalstats.

Both see the same data sets. How often a 95 % interval holds the true difference, and how wide it is
on average, by shape and number of tasks. evalstats is installed into an environment of its own.
`--write` puts the table into docs/compare.md.
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
from calipers.statistics.paired import PairedTasks, ValueScale, compare_tasks

PEER = "evalstats==0.3.3"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "compare.md"
_BEGIN, _END = "<!-- pairs: python -m benchmarks.anchor_pairs --write -->", "<!-- end of pairs -->"
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
    parser.add_argument("--write", action="store_true", help="into the page of the documentation")
    parser.add_argument("--tasks", type=int, action="append", help="only so many (repeatable)")
    parser.add_argument("--seed", type=int, help="other data sets than the page shows")
    arguments = parser.parse_args()
    peer = arguments.peer or installed()
    rows = list(measured(arguments.datasets, peer, arguments.tasks or SIZES, arguments.seed))
    print(_table(rows))
    if arguments.write:
        write_page(rows, arguments.datasets)
    missed = [f"{name}, {n}" for name, n, ours, _ in rows if _is_missed(ours, arguments.datasets)]
    print("\nbelow as measured, ours:", _below(row[2] for row in rows), end="; ")
    print("theirs:", _below(row[3] for row in rows))
    for what, chosen in (
        ("all cells", rows),
        (f"cells where theirs cover {LEAST}", [row for row in rows if row[3].coverage >= LEAST]),
    ):
        print(f"mean width over {len(chosen)} {what}: {_widths(chosen)}")
    print(f"below {LEAST}: {missed or 'none'}")
    return 1 if missed else 0


def _widths(rows: list[tuple[str, int, Held, Held]]) -> str:
    ours = float(np.mean([own.width for _, _, own, _ in rows]))
    theirs = float(np.mean([other.width for _, _, _, other in rows]))
    return f"ours {ours:.4f}, theirs {theirs:.4f}, {ours / theirs:.3f} times"


def _below(sides: Iterator[Held]) -> int:
    return sum(held.coverage < LEAST for held in sides)


def _is_missed(held: Held, count: int) -> bool:
    return held.coverage < LEAST - SLACK * sqrt(LEAST * (1 - LEAST) / count)


def installed() -> str:
    """Return the Python of an environment that has the peer."""
    return str(environment(PEER))


def measured(
    count: int, peer: str, sizes: Sequence[int] = SIZES, seed: int | None = None
) -> Iterator[tuple[str, int, Held, Held]]:
    """Yield shape, number of tasks, and how well ours and theirs held."""
    cases = [(shape, n) for shape in SHAPES for n in sizes]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"{shape.kind}-{number:03}" for number, (shape, _) in enumerate(cases)]
        for name, (shape, n) in zip(names, cases, strict=True):
            np.savez(folder / name, **stacked(data_sets(shape, n, count, seed)))
        script = Path(__file__).with_name("peer_pairs.py")
        subprocess.run([peer, script, folder], check=True, stderr=subprocess.DEVNULL)
        for name, (shape, n) in zip(names, cases, strict=True):
            sets = data_sets(shape, n, count, seed)
            own = np.array([_interval(base, candidate, shape) for base, candidate in sets])
            other = np.load(folder / f"{name}.npy")
            yield shape.name, n, _held(own, shape.truth), _held(other, shape.truth)


def _interval(base: Floats, candidate: Floats, shape: PairShape) -> tuple[float, float]:
    step = 0.5 if shape.kind == "ratings" else 1.0
    scale = ValueScale(
        yes_or_no=shape.kind == "binary", reach=1.0, step=step, higher_is_better=True
    )
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


def write_page(rows: list[tuple[str, int, Held, Held]], datasets: int) -> None:
    """Put the table, a row per shape, between its marks in the documentation."""
    sizes = sorted({n for _, n, _, _ in rows})
    by_shape: dict[str, list[str]] = {}
    for name, _, *sides in rows:
        for each in sides:
            by_shape.setdefault(name, []).append(f"{each.coverage:.3f} ({each.width:.3f})")
    heads = [f"{n:,} tasks: ours | evalstats" for n in sizes]
    lines = [
        f"{datasets} data sets a cell.",
        "",
        f"| pairs | {' | '.join(heads)} |",
        f"|---|{'---:|' * 2 * len(sizes)}",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in by_shape.items()),
    ]
    table = "\n".join(lines).replace(" 0.", " .").replace("(0.", "(.")
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    PAGE.write_text(f"{page[:start]}\n\n{table}\n\n{page[end:]}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
