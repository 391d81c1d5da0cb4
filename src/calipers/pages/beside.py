"""What stands beside the numbers of a score: its groups tier by tier, and why values are null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from calipers.reporting.corrections import correction_lines
from calipers.reporting.figures import reasons
from calipers.tiering import TIER

if TYPE_CHECKING:
    from calipers.results import Group, Score, Tiers


def beside(score: Score) -> Iterator[str]:
    """Means without the judges' error, and why values are null."""
    for line in correction_lines(score):
        yield f"without the judge's error: {line}"
    yield from reasons(score.groups)


def tier_groups(groups: Sequence[Group], tiers: Tiers) -> list[Group]:
    """The groups whose tiers are compared: those that are alike in all else."""
    return [
        group
        for group in groups
        if {name: value for name, value in group.by.items() if name != TIER} == dict(tiers.by)
    ]
