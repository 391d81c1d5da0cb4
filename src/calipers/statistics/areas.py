"""The area under a ROC curve by few rows of a kind: a score interval.

>>> low, high = area_interval(0.75, 97, 3, z=1.96)
>>> round(low, 3), round(high, 3)
(0.323, 0.943)
"""

from __future__ import annotations

from calipers.statistics.paired_shares import find_boundary

FEW = 6  # rows of a kind; of so many their own spread can be told


def area_interval(area: float, right: float, wrong: float, *, z: float) -> tuple[float, float]:
    """Return the areas that lie within z of their own standard errors.

    Newcombe (2006), Statistics in Medicine 25, 559, method 5, with Hanley and McNeil's variance. He
    puts the mean of both sizes where one of each stands; here it is the larger, so that it holds
    also where the few rows lie twice as far apart as the others.
    """
    larger = max(right, wrong)

    def is_within(other: float) -> bool:
        of_pairs = max(0.0, larger - 1) * ((1 - other) / (2 - other) + other / (1 + other))
        variance = other * (1 - other) * (1 + of_pairs) / (right * wrong)
        return (area - other) ** 2 <= z * z * variance

    return find_boundary(is_within, area, 0.0), find_boundary(is_within, area, 1.0)
