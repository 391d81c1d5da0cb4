"""Two systems, right or wrong on the same tasks: McNemar's mid-p test with a fitting interval.

>>> low, high, p_value = share_difference(9, 2, 50, confidence=0.95)
>>> round(low, 3), round(high, 3), round(p_value, 4)
(0.004, 0.265, 0.0386)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from calipers.statistics import special
from calipers.statistics.intervals import normal_quantile

_HALVINGS = 60  # of an interval no wider than 2: to the last bit


def share_difference(
    higher: int, lower: int, n: int, *, confidence: float
) -> tuple[float, float, float]:
    """Return the bounds of the difference of two paired shares, and the p-value of no difference.

    The p-value is McNemar's mid-p, the bounds are those of Bonett and Price, and the two agree: p
    is below 1 − confidence exactly where the interval leaves 0 out. Where the interval would
    without the test, its bound is moved to 0; where the test rejects sooner, the bound is that of
    the mid-p test itself, given how many pairs changed.
    """
    low, high = bonett_price(higher, lower, n, confidence=confidence)
    p_value = mcnemar(higher, lower)
    if p_value >= 1 - confidence:
        return min(low, 0.0), max(high, 0.0), p_value
    if higher > lower:
        return low if low > 0 else _find_mid_p_bound(higher, lower, n, confidence), high, p_value
    return low, high if high < 0 else -_find_mid_p_bound(lower, higher, n, confidence), p_value


def mcnemar(higher: int, lower: int) -> float:
    """Return the two-sided mid-p of McNemar's test, that changed pairs go up as often as down.

    Half of the probability of what was seen counts as more extreme: Fagerland, Lydersen & Laake
    (2013), BMC Med. Res. Methodol. 13, 91, who found that it keeps the level and has more power
    than the exact test. Without a changed pair p is 1.

    >>> round(mcnemar(6, 16), 4)
    0.0347
    """
    if higher == lower:
        return 1.0
    return min(1.0, _compute_mid_p(min(higher, lower), higher + lower, 0.5))


def bonett_price(higher: int, lower: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Return the adjusted Wald interval of a difference of paired proportions.

    Bonett & Price (2012), Br. J. Math. Stat. Psychol. 65, 479: one pair more that goes up and one
    that goes down. Of width above 0 also when no pair changed, and never without the difference
    that was seen. Fagerland, Lydersen & Laake (2014), Stat. Med. 33, 2850, recommend it.

    >>> [round(bound, 4) for bound in bonett_price(6, 16, 161, confidence=0.95)]
    [-0.1195, -0.0032]
    """
    size, seen = n + 2, (higher - lower) / n
    centre = (higher - lower) / size
    variance = (higher + lower + 2) / size - centre**2
    half = normal_quantile(confidence) * sqrt(variance / size)
    return max(-1.0, min(seen, centre - half)), min(1.0, max(seen, centre + half))


def _find_mid_p_bound(higher: int, lower: int, n: int, confidence: float) -> float:
    """Return the lower bound of the difference by the mid-p test, given the changed pairs.

    Only for `higher` above `lower`, and a test that rejects: then it is above 0.
    """
    changed = higher + lower

    def is_rejected(share: float) -> bool:
        return _compute_mid_p(lower, changed, 1 - share) < 1 - confidence

    return (2 * find_boundary(is_rejected, 0.5, 1.0) - 1) * changed / n


def _compute_mid_p(fewer: int, changed: int, share: float) -> float:
    """Return the two-sided mid-p of so few among the changed pairs, if `share` are expected."""
    up_to = special.bdtr(fewer, changed, share)
    return up_to + (special.bdtr(fewer - 1, changed, share) if fewer else 0.0)


def find_boundary(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return where a condition that holds at `inside` and not at `outside` ends."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
