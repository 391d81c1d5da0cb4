"""Tasks crossed with configurations: where the variance of single runs comes from.

Each run is of a task and of a configuration. Its value varies with the task, with the
configuration, with how the two go together, and from run to run.

Values that share a task depend on each other, and so do those of a prompt (two-way clustering).
The variance of their mean is that with tasks as clusters, plus that with prompts, less that with
the cells of both, which the two count twice (Cameron, Gelbach & Miller 2011, J. Bus. Econ. Stat.
29, 238). Each is CR2 (`statistics.clusters`); the whole is at least that of either factor alone,
and the degrees of freedom are those of the factor that has fewest: three prompts tell of few
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from calipers.statistics.clusters import Clusters, Floats, Labels

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedError:
    """The standard error of a mean over crossed factors, and its degrees of freedom."""

    stderr: float
    degrees: float


def list_terms(count: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the combinations of so many factors, and the sign with which their variance counts.

    >>> [*list_terms(2)]
    [((0,), 1), ((1,), 1), ((0, 1), -1)]
    """
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            yield chosen, 1 if size % 2 else -1


def cross_error(values: Floats, factors: Sequence[Labels]) -> CrossedError | None:
    """Return the error of the mean of values; None where a factor has one value only.

    >>> values = np.array([1.0, 2.0, 3.0, 2.0, 3.0, 4.0])
    >>> found = cross_error(values, [np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2])])
    >>> round(found.stderr, 3), found.degrees
    (0.632, 1.0)
    """
    off = values - values.mean()
    codes = [np.unique(each, return_inverse=True)[1].ravel() for each in factors]
    whole, most, fewest = 0.0, 0.0, float(values.size)
    for chosen, sign in list_terms(len(codes)):
        cells = np.unique(np.stack([codes[at] for at in chosen]), axis=1, return_inverse=True)[1]
        squares, clusters = Clusters.of_influences(off, cells.ravel())
        if clusters.too_few:
            return None
        variance = squares * clusters.inflation
        whole += sign * variance
        if len(chosen) == 1:
            most, fewest = max(most, variance), min(fewest, clusters.degrees)
    return CrossedError(stderr=float(np.sqrt(max(whole, most))) / values.size, degrees=fewest)
