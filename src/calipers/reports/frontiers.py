"""The frontier of cost of pass in words: what a pass costs at best, and thanks to whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calipers.reports.figures import group_name

if TYPE_CHECKING:
    from calipers.scores.results import Frontier, OnFrontier


def frontier_lines(frontier: Frontier) -> Iterator[str]:
    """A line on the whole, then one per group that is best for some task."""
    solved = f"{frontier.solved:,} of {frontier.tasks:,} tasks solved by some group"
    cost = frontier.solved_cost_of_pass
    if frontier.unknown_cost:
        solved += f", {frontier.unknown_cost:,} of them at unknown cost only"
    if cost is None:
        yield f"cheapest way to a pass: {solved}"
        return
    within = "" if frontier.low is None else f" [{frontier.low:.4g}, {frontier.high:.4g}]"
    yield f"cheapest way to a pass: {cost:.4g}{within} USD a task, {solved}"
    for group in sorted(frontier.groups, key=lambda each: -each.best):
        if group.best:
            yield f"  {_of_group(group)}"


def _of_group(group: OnFrontier) -> str:
    text = f"{group_name(group.by)}: cheapest for {group.best:,} of its {group.tasks:,}"
    if group.saves:
        text += f", {group.saves:.4g} USD below the next"
    if group.only:
        text += f"; alone in solving {group.only:,}"
    return text
