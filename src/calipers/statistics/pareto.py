"""The Pareto front: what nothing else beats on both counts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf


def pareto_front(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Return the positions of the points on the front, cheapest first; equal points are all on it.

    A point is on the front when no other costs at most as much and gains at least as much, one of
    the two strictly.

    >>> pareto_front([1, 2, 3], [0.5, 0.9, 0.8])
    [0, 1]
    """
    order = sorted(range(len(costs)), key=lambda at: (costs[at], -gains[at], at))
    front: list[int] = []
    best, at_cost = -inf, -inf
    for at in order:
        if gains[at] > best or (gains[at] == best and costs[at] == at_cost):
            front.append(at)
            best, at_cost = gains[at], costs[at]
    return front
