"""Where among the sorted values of a group the value of a rank is, and the bounds around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection

from calipers.engines.ranks import Position
from calipers.engines.totals import GroupTotals
from calipers.metrics.cost.tiers import TIER
from calipers.metrics.declare.declaration import Feature, Rank
from calipers.metrics.declare.description import list_positions
from calipers.metrics.declare.intervals import read_spread
from calipers.statistics.intervals import effective_size, quantile_ranks


def locate_ranks(groups: GroupTotals, rank: Rank, confidence: float) -> list[Position]:
    """Return each group's position of the rank, and of its bounds if rows are independent."""
    found: list[Position] = []
    for group, count in count_values(groups, rank.feature).items():
        found.append((group, rank.value_name, rank.locate(count)))
        found += _locate_bounds(group, rank, count, float(count), confidence)
    return found


def locate_clustered_ranks(groups: GroupTotals, rank: Rank, confidence: float) -> list[Position]:
    """Return the positions of the bounds in groups whose rows come in clusters."""
    found: list[Position] = []
    for group, count in count_values(groups, rank.feature).items():
        spread, clusters = read_spread(rank.influence.name, groups[group])
        if clusters.count < count:
            for name in (rank.low_name, rank.high_name):
                groups[group].pop(name, None)
            size = effective_size(rank.percent / 100, count, spread, clusters)
            found += _locate_bounds(group, rank, count, size, confidence)
    return found


def adjust_confidence(groups: Collection[str], confidence: float) -> float:
    """Return the confidence of each interval for all tiers of a family to be covered at once.

    Bonferroni's: the families are the groups that differ in nothing but their tier.
    """
    others = (
        json.dumps({name: value for name, value in json.loads(text).items() if name != TIER})
        for text in groups
    )
    largest = max(Counter(others).values(), default=1)
    return 1 - (1 - confidence) / largest


def _locate_bounds(
    group: str, rank: Rank, count: int, size: float, confidence: float
) -> list[Position]:
    low, high = quantile_ranks(rank.percent / 100, count, size, confidence)
    found = ((rank.low_name, low), (rank.high_name, high))
    return [(group, name, position) for name, position in found if position is not None]


def locate_described(groups: GroupTotals, feature: Feature) -> list[Position]:
    """Return where in each group the statistics of a feature are among its sorted values."""
    return [
        (group, name, position)
        for group, count in count_values(groups, feature).items()
        for name, position in list_positions(feature.name, count).items()
    ]


def count_values(groups: GroupTotals, feature: Feature) -> dict[str, int]:
    """Return how many values of a feature each group has, if any."""
    counts = {group: int(totals.get(f"{feature.name}__n", 0)) for group, totals in groups.items()}
    return {group: count for group, count in counts.items() if count}
