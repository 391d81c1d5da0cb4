"""Several estimates at once: intervals that all hold together, and p-values adjusted to match.

The largest of several standardised errors decides (max-t). Its distribution is drawn by a bootstrap
with Gaussian multipliers: a draw weighs every task by the same random number for all systems, so
that systems which fail on the same tasks stay correlated (Chernozhukov, Chetverikov & Kato 2013,
Ann. Statist. 41, 2786). Such draws are normal with the covariance of the estimates, which is
therefore all that is needed, however many tasks there are.

The draws only say at which level each single interval has to be taken. The intervals themselves
are those of one estimate, exact or corrected for few tasks, at that level.

>>> independent = MaxT.of_each(np.eye(10), seed=0)
>>> round(1 - independent.level(0.95), 3)  # Šidák: 1 - 0.95 ** (1 / 10) = 0.005
0.005
>>> round(independent.adjust(0.005), 2), independent.adjust(0.9)
(0.05, 1.0)
"""

from __future__ import annotations

from math import ceil, erf, sqrt
from typing import Self

import numpy as np

from calipers.statistics.arrays import Floats
from calipers.statistics.intervals import normal_quantile
from calipers.support.quick_dataclasses import dataclass

DRAWS = 20_000

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class MaxT:
    """The largest of several standardised errors: sorted draws of it, and how many there are."""

    largest: Floats
    tests: int

    @classmethod
    def of_each(cls, covariance: Floats, *, seed: int, draws: int = DRAWS) -> Self:
        """Return the distribution over the estimates themselves."""
        rng = np.random.default_rng([seed, 0])
        errors = _draw(covariance, rng, draws)
        deviations = np.sqrt(np.diag(covariance))
        known = deviations > _ROUNDING * deviations.max(initial=0.0)
        errors[:, known] /= deviations[known]
        errors[:, ~known] = rng.standard_normal((draws, int((~known).sum())))
        return cls(np.sort(np.abs(errors).max(axis=1)), deviations.size)

    @classmethod
    def of_pairs(cls, covariance: Floats, *, seed: int, draws: int = DRAWS) -> Self:
        """Return the distribution over the differences between any two of the estimates.

        A difference that does not vary counts as one more, independent of the others.
        """
        rng = np.random.default_rng([seed, 1])
        errors = _draw(covariance, rng, draws)
        deviations = pair_deviations(covariance)
        largest = np.zeros(draws)
        count = len(covariance)
        for one in range(count - 1):
            of_pairs = deviations[one, one + 1 :]
            apart = np.abs(errors[:, [one]] - errors[:, one + 1 :])
            known = of_pairs > 0
            if known.any():
                np.maximum(largest, (apart[:, known] / of_pairs[known]).max(axis=1), out=largest)
            for _ in range(int((~known).sum())):
                np.maximum(largest, np.abs(rng.standard_normal(draws)), out=largest)
        return cls(np.sort(largest), count * (count - 1) // 2)

    def level(self, confidence: float) -> float:
        """Return the confidence of each single interval at which all hold with `confidence`."""
        if self.tests <= 1:
            return confidence
        draws = self.largest.size
        beyond = max(0, ceil((1 - confidence) * (draws + 1) - 1) - 1)
        reach = max(float(self.largest[draws - 1 - beyond]), normal_quantile(confidence))
        return erf(reach / sqrt(2))

    def adjust(self, p_value: float) -> float:
        """Return the p-value of one test adjusted for all: below 1 − C where its level rejects."""
        if self.tests <= 1:
            return p_value
        reach = normal_quantile(1 - p_value) if p_value > 0 else np.inf
        draws = self.largest.size
        beyond = draws - int(np.searchsorted(self.largest, reach, side="left"))
        drawn = (beyond + 1) / (draws + 1)
        if not beyond:  # further out than any draw: what Bonferroni's inequality allows
            drawn = min(drawn, self.tests * p_value)
        return max(p_value, drawn)


def pair_deviations(covariance: Floats) -> Floats:
    """Return the standard error of each difference; 0 where it is rounding."""
    own = np.diag(covariance)
    total = own[:, None] + own[None, :]
    squares = total - 2 * covariance
    return np.sqrt(np.where(squares > _ROUNDING * total, squares, 0.0))


def _draw(covariance: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Return normal errors with a covariance, a row per draw."""
    return rng.standard_normal((draws, len(covariance))) @ _compute_root(covariance).T


def _compute_root(covariance: Floats) -> Floats:
    """Return the Cholesky factor of a covariance, which need not be of full rank."""
    count = len(covariance)
    root = np.zeros((count, count))
    for place in range(count):
        left = covariance[place:, place] - root[place:, :place] @ root[place, :place]
        if left[0] > _ROUNDING * covariance[place, place]:
            root[place:, place] = left / np.sqrt(left[0])
    return root
