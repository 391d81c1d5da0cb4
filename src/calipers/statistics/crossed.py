"""Tasks crossed with configurations: where the variance of single runs comes from.

Each run is of a task and of a configuration. Its value varies with the task, with the
configuration, with how the two go together, and from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST = 2  # tasks, and configurations


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedVariance:
    """The parts of the variance of one run, which add up to `total`; a part may be unknown."""

    task: float
    variant: float
    together: float | None  # task × variant beyond both; None where no cell has two runs
    run: float | None  # None too: it is then within `together`, which is what is left
    rest: float | None  # both of these where they cannot be told apart
    total: float
    tasks: int
    variants: int
    runs: int


def split_crossed(
    values: ArrayLike, tasks: ArrayLike, variants: ArrayLike
) -> CrossedVariance | None:
    """Return the variance components of runs of tasks under several configurations.

    Method of moments on the means of cells, each cell weighted alike (Searle, Casella & McCulloch
    1992, ch. 4); a negative estimate is 0. Tasks that some configuration lacks are left out. None
    with fewer than two tasks or configurations in common, or where nothing varies.

    >>> found = split_crossed([1, 1, 0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 2, 2, 2, 2], list("aabbaabb"))
    >>> found.variant, found.task, found.run
    (0.5, 0.0, 0.0)
    """
    value = np.asarray(values, dtype=np.float64)
    _, task = np.unique(np.asarray(tasks), return_inverse=True)
    _, variant = np.unique(np.asarray(variants), return_inverse=True)
    shape = int(task.max(initial=-1)) + 1, int(variant.max(initial=-1)) + 1
    counts = np.zeros(shape)
    np.add.at(counts, (task, variant), 1)
    whole = np.asarray((counts > 0).all(axis=1))
    if whole.sum() < FEWEST or shape[1] < FEWEST:
        return None
    is_used = whole[task]
    value, task, variant = value[is_used], task[is_used], variant[is_used]
    sums = np.zeros(shape)
    np.add.at(sums, (task, variant), value)
    counts, sums = counts[whole], sums[whole]
    means = sums / counts
    place = np.cumsum(whole) - 1
    within = float(np.square(value - means[place[task], variant]).sum())
    freedom = int(value.size - means.size)
    return _estimate(means, counts, within / freedom if freedom else None, int(value.size))


def _estimate(
    means: np.ndarray, counts: np.ndarray, run: float | None, runs: int
) -> CrossedVariance | None:
    tasks, variants = means.shape
    middle = means.mean()
    rows, columns = means.mean(axis=1) - middle, means.mean(axis=0) - middle
    left = means - middle - rows[:, None] - columns[None, :]
    of_cells = float(np.square(left).sum() / ((tasks - 1) * (variants - 1)))
    task = float(np.square(rows).sum() / (tasks - 1)) - of_cells / variants
    variant = float(np.square(columns).sum() / (variants - 1)) - of_cells / tasks
    together = None if run is None else max(0.0, of_cells - run * float((1 / counts).mean()))
    rest = of_cells if run is None else (together or 0.0) + run
    task, variant = max(0.0, task), max(0.0, variant)
    total = task + variant + rest
    if not total:
        return None
    return CrossedVariance(
        task=task,
        variant=variant,
        together=together,
        run=run,
        rest=rest if run is None else None,
        total=total,
        tasks=tasks,
        variants=variants,
        runs=runs,
    )
