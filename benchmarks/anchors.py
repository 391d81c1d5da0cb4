"""Intervals beside those of other tools, as figures of `python -m benchmarks`.

The peers are installed into environments of their own. Where that cannot be done, a line says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from subprocess import CalledProcessError, SubprocessError

import numpy as np

from benchmarks import anchor_correction, anchor_intervals, anchor_pairs
from benchmarks.figures import Bar, Figure
from benchmarks.processes import Setup

DATASETS = 100  # per cell: coverage to ± 0.05; the modules by themselves take more
_LESS = DATASETS // 5


def of_anchors(setup: Setup) -> Iterator[Figure]:
    """Coverage and width of means, paired differences and corrected means, ours and theirs."""
    datasets = DATASETS if setup.is_full else _LESS
    for name, measured in (("means", _means), ("pairs", _pairs)):
        try:
            yield from measured(datasets)
        except (SubprocessError, OSError) as error:
            yield Figure(name=f"intervals of {name}", value=nan, detail=_why(error))
    yield from _corrected(datasets)


def _means(datasets: int) -> Iterator[Figure]:
    cells = list(anchor_intervals.compared(anchor_intervals.CASES, datasets))
    covered = [(theirs.covered, ours.covered) for _, _, theirs, ours in cells]
    widths = [(theirs.width, ours.width) for _, _, theirs, ours in cells]
    yield from _figures("means", anchor_intervals.ANCHOR, covered, widths, bar=Bar(1.0))


def _pairs(datasets: int) -> Iterator[Figure]:
    cells = list(anchor_pairs.measured(datasets, anchor_pairs.installed()))
    covered = [(theirs.coverage, ours.coverage) for _, _, ours, theirs in cells]
    widths = [(theirs.width, ours.width) for _, _, ours, theirs in cells]
    yield from _figures("pairs", anchor_pairs.PEER, covered, widths)


def _corrected(datasets: int) -> Iterator[Figure]:
    cells = [anchor_correction.compared(shape, datasets) for shape in anchor_correction.shapes()]
    covered = [(theirs, ours) for theirs, _, ours, _ in cells]
    widths = [(theirs, ours) for _, theirs, _, ours in cells]
    yield from _figures("corrected means", "PPI++", covered, widths)


def _figures(
    what: str,
    peer: str,
    covered: list[tuple[float, float]],
    widths: list[tuple[float, float]],
    bar: Bar | None = None,
) -> Iterator[Figure]:
    """The lowest coverage, and the width where the peer holds; both are theirs, then ours."""
    least = anchor_intervals.LEAST
    below = [sum(each < least for each in side) for side in zip(*covered, strict=True)]
    lowest = [min(side) for side in zip(*covered, strict=True)]
    yield Figure(
        name=f"intervals of {what}: lowest coverage",
        value=lowest[1],
        unit="",
        detail=f"{peer}: {lowest[0]:.3f}; below {least}: {below[1]} and {below[0]} "
        f"of {len(covered)} cells",
    )
    holds = [pair for pair, (theirs, _) in zip(widths, covered, strict=True) if theirs >= least]
    theirs, ours = np.sum(holds, axis=0)
    yield Figure(
        name=f"intervals of {what}: width to {peer}",
        value=float(ours / theirs),
        bar=bar,
        detail=f"over {len(holds)} cells where theirs hold",
    )


def _why(error: SubprocessError | OSError) -> str:
    if isinstance(error, CalledProcessError):
        return f"not measured: {' '.join(map(str, error.cmd[:4]))} … failed with {error.returncode}"
    return f"not measured: {error}"
