"""Two-way clustering: values that share a task depend on each other, and so do those of a prompt.

The variance of a mean is that with tasks as clusters, plus that with prompts, less that with the
cells of both, which the two count twice (Cameron, Gelbach & Miller 2011, J. Bus. Econ. Stat. 29,
238). Each is CR2 (`statistics.clusters`); the whole is at least that of either factor alone, and
the degrees of freedom are those of the factor that has fewest: three prompts tell of few others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from calipers.statistics.clusters import Clusters, Floats, Labels


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
