"""Tests of a mean in [0, 1] that hold however often one looks, and may end whenever it is sure.

Someone bets, value by value, that the mean is above a mark. If it is not, no way to bet makes money
on average, so that the capital ever grows to 1/α with a probability of at most α (Ville 1939). The
marks at which it has grown so far are those that the mean lies above: a confidence sequence
(Waudby-Smith & Ramdas 2023, "Estimating means of bounded random variables by betting", JRSS B).

- How much to bet is not known before: the capital is spread over fixed fractions of what can be
  lost, and each part bets its own (their "diversified Kelly"; Ryu & Bhatt 2022, arXiv 2207.12382,
  show how close such a mixture comes to the best fraction).
- Where the values are drawn in random order from `total` of them, each once, the mean of what is
  left is known for every mark, and that is what the bets are against (Waudby-Smith & Ramdas 2020,
  "Confidence sequences for sampling without replacement", NeurIPS): with the last value all is
  known. Without a `total` the values are draws from something endless.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calipers.statistics.clusters import Floats

# Denser near 0, for marks that are close to the mean.
_FRACTIONS: Floats = (np.arange(1, 11) / 10.1) ** 2
_SMALLEST = 1e-9  # mean of what is left: below it is what rounding leaves of 0
_STEPS = 24  # halvings of [0, 1] to find a bound


class Bounds(NamedTuple):
    """What the mean lies between."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bets:
    """Someone who bets, value by value, that a mean is above a mark; wins at 1/alpha.

    >>> Bets(mark=0.5, total=100, alpha=0.025).place([1] * 40).won_after
    8
    """

    mark: float
    alpha: float
    total: int | None = None
    seen: int = 0
    summed: float = 0.0
    won_after: int | None = None  # so many values, if at all
    capital: Floats = field(default_factory=lambda: np.zeros(_FRACTIONS.size))  # logarithms

    def place(self, values: ArrayLike) -> Bets:
        """Return the bets after further values."""
        drawn = np.asarray(values, dtype=np.float64)
        if not drawn.size:
            return self
        capital = self.capital[:, None] + self._compute_growth(drawn).cumsum(axis=1)
        whole = np.logaddexp.reduce(capital, axis=0) - log(_FRACTIONS.size)
        won = np.flatnonzero(whole >= -log(self.alpha))
        now = None if not won.size else self.seen + int(won[0]) + 1
        return replace(
            self,
            seen=self.seen + drawn.size,
            summed=self.summed + float(drawn.sum()),
            won_after=now if self.won_after is None else self.won_after,
            capital=capital[:, -1],
        )

    def _compute_growth(self, drawn: Floats) -> Floats:
        """Return the log of the factor by which each value multiplies each part of the capital."""
        left = np.full(drawn.size, self.mark)
        if self.total is not None:
            before = self.summed + np.concatenate(([0.0], drawn.cumsum()[:-1]))
            remaining = self.total - self.seen - np.arange(drawn.size)
            left = (self.total * self.mark - before) / remaining
        won: Floats = drawn / np.maximum(left, _SMALLEST) - 1  # per unit that can be lost
        return np.asarray(np.log1p(_FRACTIONS[:, None] * won))


def mean_bounds(
    least: ArrayLike, most: ArrayLike | None = None, *, total: int | None, alpha: float
) -> Bounds:
    """Return the confidence sequence after these values: it ever misses with at most alpha.

    Where a value is not known, `least` and `most` say what it can be.

    >>> mean_bounds([1, 1, 0, 1], total=4, alpha=0.05)
    Bounds(low=0.75, high=0.75)
    """
    lower = np.asarray(least, dtype=np.float64)
    upper = lower if most is None else np.asarray(most, dtype=np.float64)
    return Bounds(_find_low(lower, total, alpha / 2), 1 - _find_low(1 - upper, total, alpha / 2))


def sure_bounds(summed_least: float, summed_most: float, seen: int, total: int) -> Bounds:
    """Return the bounds of the mean of all values, whatever the values to come are."""
    return Bounds(summed_least / total, (summed_most + total - seen) / total)


def _find_low(values: Floats, total: int | None, alpha: float) -> float:
    """Return the greatest value that the mean is known to exceed."""
    low, high = 0.0, 1.0
    if total is not None:
        low, high = sure_bounds(float(values.sum()), float(values.sum()), values.size, total)
    for _ in range(_STEPS if high > low else 0):
        middle = (low + high) / 2
        bets = Bets(mark=middle, alpha=alpha, total=total)
        if bets.place(values).won_after is not None:
            low = middle
        else:
            high = middle
    return low
