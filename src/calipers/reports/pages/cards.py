"""Groups that a card has lines for: all of a few, the extremes of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calipers.metrics import metric_named
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from calipers.scores.results import Group, Measured


@dataclass(frozen=True, slots=True)
class CardGroups:
    """The groups to show, and what to say about the others."""

    shown: tuple[Group, ...]
    note: str | None
    measured: tuple[Measured, ...]  # of all groups that have the metric


def choose_groups(name: str, groups: Sequence[Group], most: int) -> CardGroups:
    """Return the groups that have the metric, or the best and the worst of them."""
    having = [group for group in groups if name in group.metrics]
    measured = tuple(group.metrics[name] for group in having)
    if len(having) <= most:
        return CardGroups(tuple(having), None, measured)
    better, half = metric_named(name).better, most // 2
    known = sorted(
        (group for group in having if group.metrics[name].value is not None),
        key=lambda group: group.metrics[name].value or 0.0,
        reverse=better == "higher",
    )
    if len(known) <= most:
        return CardGroups(tuple(known), f"the {len(known)} of {len(having)} with a value", measured)
    ends = ("highest", "lowest") if better == "higher" else ("lowest", "highest")
    note = f"the {half} {ends[0]} and the {half} {ends[1]} of {len(having)} groups"
    return CardGroups((*known[:half], *known[-half:]), note, measured)
