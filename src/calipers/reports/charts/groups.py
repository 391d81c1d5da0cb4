"""Names of groups in charts: the series, shown by colour, and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calipers.metrics.cost.tiers import TIER
from calipers.reports.charts.style import GREY
from calipers.reports.charts.vega_lite import Spec, category
from calipers.reports.figures import group_name, join_some, shorten_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from calipers.scores.results import Group, Histogram

LONGEST = 28  # characters of a name


def describe_fields(groups: Sequence[Group]) -> str:
    """Return `, by model and tier`; empty if all records are one group."""
    names = [shorten_text(name, LONGEST) for name in groups[0].by]
    return f", by {' and '.join(names)}" if names else ""


def get_series(group: Group) -> str | None:
    """Return what colour shows: all the fields but the tier, if there are both; else None."""
    others = {name: value for name, value in group.by.items() if name != TIER}
    return group_name(others) if others and TIER in group.by else None


def name_group(group: Group, *, with_series: bool) -> str:
    """Return the group's name, without its series if a colour shows that."""
    if with_series or get_series(group) is None:
        return group_name(group.by) if group.by else "all runs"
    return group_name({TIER: group.by[TIER]})


def make_panel_title(group: Group, told: str, longest: int = LONGEST, offset: int = 4) -> Spec:
    """Return the group's name above its panel, and what is said about it below."""
    return {
        "text": shorten_text(name_group(group, with_series=True), longest),
        "subtitle": told,
        "anchor": "start",
        "frame": "group",
        "fontSize": 12,
        "subtitleFontSize": 11,
        "subtitleColor": GREY,
        "offset": offset,
    }


def name_lines(rows: Sequence[Mapping[str, Any]], pixels: int) -> Spec:
    """Return the names of lines below each other, in the order of the rows."""
    return category(
        "name",
        sort=None,
        scale={"domain": [row["name"] for row in rows]},
        axis={"title": None, "labelLimit": pixels, "ticks": False, "domain": False},
    )


def join_names(names: Sequence[str]) -> str:
    """Return some names on a line, and how many more there are."""
    return join_some([shorten_text(name, LONGEST) for name in names])


def join_groups(groups: Iterable[Group]) -> str:
    """Return the names of some groups on a line, and how many more there are."""
    return join_names([name_group(group, with_series=True) for group in groups])


def get_histogram(group: Group, name: str) -> Histogram:
    """Return the histogram of a group that is known to have it."""
    found = group.histograms[name]
    assert found is not None
    return found


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Return the names, numbered if two are equal.

    >>> number_duplicates(["a", "b", "a"])
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
