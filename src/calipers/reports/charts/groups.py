"""The groups of a score as a chart names them: series, which have a colour, and what else tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from calipers.metrics.cost.tiers import TIER
from calipers.reports.charts.style import GREY
from calipers.reports.figures import group_name, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calipers.scores.results import Group

_LONGEST = 28


def short(text: str, longest: int = _LONGEST) -> str:
    """A name that leaves room for others."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def by_fields(groups: Sequence[Group]) -> str:
    """`, by model and tier`; nothing where all records are one group."""
    names = [short(printable(name)) for name in groups[0].by]
    return f", by {' and '.join(names)}" if names else ""


def series_of(group: Group) -> str | None:
    """What is told by colour: all the fields but the tier, where there are both."""
    others = {name: value for name, value in group.by.items() if name != TIER}
    return group_name(others) if others and TIER in group.by else None


def name_of(group: Group, *, with_series: bool) -> str:
    """The group's name, without its series where a colour tells that."""
    if with_series or series_of(group) is None:
        return group_name(group.by) if group.by else "all runs"
    return group_name({TIER: group.by[TIER]})


def panel_title(
    group: Group, told: str, longest: int = _LONGEST, offset: int = 4
) -> alt.TitleParams:
    """The group's name above its panel, and below it what is told of it."""
    return alt.TitleParams(
        text=short(name_of(group, with_series=True), longest),
        subtitle=told,
        anchor="start",
        frame="group",
        fontSize=12,
        subtitleFontSize=11,
        subtitleColor=GREY,
        offset=offset,
    )


def listed(names: Sequence[str], most: int = 6) -> str:
    """Some names on a line, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(short(name) for name in names[:most]) + more


def told_apart(names: Sequence[str]) -> list[str]:
    """The names, numbered where two would be one.

    >>> told_apart(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    found: list[str] = []
    for name in names:
        again, number = name, 1
        while again in found:
            number += 1
            again = f"{name} ({number})"
        found.append(again)
    return found
