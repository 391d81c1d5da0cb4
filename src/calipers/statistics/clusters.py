"""How much clusters of rows are worth where some hold more rows, or weigh more, than others.

A cluster's share is its part of all rows, or of all weight. Of the shares only three sums are
needed, Σ share², Σ share³ and Σ share⁴, and these add up over parts of the data.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

from calipers.support.quick_dataclasses import dataclass

_LEAST_LEFT = 1e-9  # of the variance, where one cluster is nearly all there is
_FEWEST = 2  # clusters: one alone says nothing of how far the next may lie


@dataclass(frozen=True, slots=True)
class Clusters:
    """So many clusters, and what their unequal sizes leave of them.

    >>> Clusters.of(40).degrees
    39.0
    >>> few = Clusters.of_sizes([20, 20, 20, 20, 20] + [1] * 35)
    >>> few.count, round(few.worth, 1), round(few.degrees, 1)
    (40, 9.0, 4.2)
    """

    count: int
    worth: float  # one over Σ share²: as many equal ones would vary as much (Kish 1965)
    degrees: float  # of freedom, by Satterthwaite's rule for squares of such weights
    inflation: float  # of the summed squares, which lack what each cluster moves the value itself

    @classmethod
    def of(cls, clusters: int | Clusters) -> Clusters:
        """Take a bare number as that many equal clusters."""
        if isinstance(clusters, Clusters):
            return clusters
        left = clusters - 1
        return cls(clusters, float(clusters), float(left), clusters / left if left > 0 else inf)

    @classmethod
    @lru_cache(maxsize=4096)  # the values of a group have the same clusters, and often all groups
    def of_powers(cls, count: int, total: float, powers: tuple[float, float, float]) -> Clusters:
        """Return the clusters by Σ size, and Σ size², Σ size³ and Σ size⁴.

        If the means of clusters vary alike, the sum of their squared influences is on average
        1 − 2 Σ share³ / Σ share² + Σ share² of their variance: (C − 1) / C where all are equal.
        """
        if count < _FEWEST or not total or not powers[0]:
            return cls.of(count)
        second, third, fourth = powers[0] / total**2, powers[1] / total**3, powers[2] / total**4
        left = max(_LEAST_LEFT, 1 - 2 * third / second + second)
        return cls(count, 1 / second, max(1.0, second**2 / fourth - 1), 1 / left)

    @classmethod
    def of_sizes(cls, sizes: list[int] | list[float]) -> Clusters:
        """Return the clusters by the size of each."""
        powers = tuple(float(sum(size**power for size in sizes)) for power in (2, 3, 4))
        return cls.of_powers(len(sizes), float(sum(sizes)), (powers[0], powers[1], powers[2]))

    @property
    def too_few(self) -> bool:
        """Whether nothing can be said of the next."""
        return self.count < _FEWEST
