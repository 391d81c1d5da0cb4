"""Bradley-Terry: the strength of each system from who won against whom.

The odds that one wins against another are e to the difference of their strengths (Bradley & Terry
1952, Biometrika 39, 324); strengths sum to 0. A tie counts as half a win for either side. Several
comparisons on one task depend on each other, so that errors are summed by task (a sandwich
covariance, Liang & Zeger 1986, Biometrika 73, 13).

>>> met = Comparisons(first=[0, 0, 0, 0], second=[1, 1, 1, 1], result=[1, 1, 1, 0])
>>> found = fit_strengths(met, systems=2)
>>> round(float(found.values[0] - found.values[1]), 4)  # ln 3
1.0986
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.statistics.arrays import Floats, Whole
from calipers.support.quick_dataclasses import dataclass

_STEPS = 200
_CLOSE = 1e-12
_FEWEST = 2


@dataclass(frozen=True, slots=True, init=False)
class Comparisons:
    """Who met whom: 1 where the first won, 0 where the second did, ½ for a tie."""

    first: Whole
    second: Whole
    result: Floats
    clusters: Whole  # comparisons that share one depend on each other

    def __init__(
        self,
        first: ArrayLike,
        second: ArrayLike,
        result: ArrayLike,
        clusters: ArrayLike | None = None,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "first", np.asarray(first, dtype=np.int64))
        set_(self, "second", np.asarray(second, dtype=np.int64))
        set_(self, "result", np.asarray(result, dtype=np.float64))
        labels = np.arange(self.first.size) if clusters is None else np.asarray(clusters)
        set_(self, "clusters", np.unique(labels, return_inverse=True)[1].astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """The strengths with their covariance, how many clusters tell them, and who won how often."""

    values: Floats
    covariance: Floats
    clusters: int
    win_rates: Floats  # a tie is half a win
    ties_added: bool  # where some side won, or lost, all that there was


def fit_strengths(met: Comparisons, systems: int) -> Strengths:
    """Return the strengths of largest likelihood.

    Where some systems won everything against all the others, no finite strengths are the most
    likely. Then each pair that met counts one further comparison, a tie.

    Raises:
        ValueError: No chain of comparisons joins all systems.
    """
    wins = np.zeros((systems, systems))
    np.add.at(wins, (met.first, met.second), met.result)
    np.add.at(wins, (met.second, met.first), 1 - met.result)
    played = wins + wins.T
    if not is_joined(played > 0):
        raise ValueError("no chain of comparisons joins all systems")
    added = np.zeros_like(wins)
    if not is_joined(wins > 0):
        added = np.where(played > 0, 0.5, 0.0)
    values = _find_most_likely(wins + added)
    inverse = np.linalg.pinv(_compute_information(values, played + added + added.T))
    spread = _sum_by_cluster(met, values, systems) + _compute_information(values, added + added.T)
    rates = wins.sum(axis=1) / played.sum(axis=1)
    return Strengths(
        values=values,
        covariance=inverse @ spread @ inverse,
        clusters=int(met.clusters.max(initial=-1)) + 1,
        win_rates=rates,
        ties_added=bool(added.any()),
    )


def is_joined(edges: NDArray[np.bool_]) -> bool:
    """Say whether steps along the edges lead from each place to every other one."""
    return all(_find_reached(each).all() for each in (edges, edges.T))


def _find_reached(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which places steps from the first one lead to."""
    found = np.zeros(len(edges), dtype=bool)
    found[0] = True
    while True:
        further = found | edges[found].any(axis=0)
        if (further == found).all():
            return found
        found = further


def _compute_chances(values: Floats) -> Floats:
    """Return the probability that each wins against each."""
    found: Floats = np.exp(-np.logaddexp(0, values[None, :] - values[:, None]))
    return found


def _compute_information(values: Floats, played: Floats) -> Floats:
    """Return how much so many comparisons say: minus the second derivative of the likelihood."""
    chances = _compute_chances(values)
    weights = played * chances * (1 - chances)
    np.fill_diagonal(weights, 0.0)
    return np.diag(weights.sum(axis=1)) - weights


def _find_most_likely(wins: Floats) -> Floats:
    """Return the strengths of largest likelihood (Newton's method, its steps halved if need be)."""
    played = wins + wins.T
    values = np.zeros(len(wins))

    def likelihood(strengths: Floats) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(_compute_chances(strengths))
        return float(np.where(wins > 0, wins * logs, 0.0).sum())

    reached = likelihood(values)
    for _ in range(_STEPS):
        slope = (wins - played * _compute_chances(values)).sum(axis=1)
        step = np.linalg.pinv(_compute_information(values, played)) @ slope
        while (next_ := likelihood(values + step)) < reached and np.abs(step).max() > _CLOSE:
            step /= 2
        values, reached = values + step, next_
        if np.abs(step).max() <= _CLOSE:
            break
    found: Floats = values - values.mean()
    return found


def _sum_by_cluster(met: Comparisons, values: Floats, systems: int) -> Floats:
    """Return the sum over clusters of the squares of what each adds to the slopes."""
    surprise = met.result - _compute_chances(values)[met.first, met.second]
    clusters = int(met.clusters.max(initial=-1)) + 1
    slopes = np.zeros((clusters, systems))
    np.add.at(slopes, (met.clusters, met.first), surprise)
    np.add.at(slopes, (met.clusters, met.second), -surprise)
    few = clusters / (clusters - 1) if clusters >= _FEWEST else 1.0
    found: Floats = few * slopes.T @ slopes
    return found
