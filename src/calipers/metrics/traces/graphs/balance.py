"""How evenly tasks are spread over agents, of many runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from calipers.metrics.traces.graphs.graphs import Floats

_FEWEST_UNEVEN = 2


def measure_balance(counts: Sequence[Sequence[float]]) -> Floats:
    """Return 1 − deviation / mean of each run's counts (sample deviation); never below 0.

    Fewer than two agents, or no task at all, is even.

    >>> measure_balance([[4, 4], [2, 4, 6], [0, 9], [0, 0], []]).round(3).tolist()
    [1.0, 0.5, 0.0, 1.0, 1.0]
    """
    agents = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    runs = np.repeat(np.arange(len(counts)), agents)
    tasks = np.fromiter(chain.from_iterable(counts), dtype=np.float64, count=len(runs))
    most = np.zeros(len(counts))
    np.maximum.at(most, runs, tasks)
    spread = np.flatnonzero((agents >= _FEWEST_UNEVEN) & (most > 0))
    shares = tasks / np.where(most > 0, most, 1.0)[runs]  # of the most: no square overflows
    means = np.bincount(runs, shares, len(counts)) / np.maximum(agents, 1)
    squares = np.bincount(runs, (shares - means[runs]) ** 2, len(counts))
    balance = np.ones(len(counts))
    deviations = np.sqrt(squares[spread] / (agents[spread] - 1))
    balance[spread] = np.maximum(0.0, 1 - deviations / means[spread])
    return balance
