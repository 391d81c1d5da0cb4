"""Names in charts: what groups and series are called, and where the labels of points stand.

Labels stand beside their points, without overlap. Lengths are pixels, x to the right and y down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING, Any

from calipers.metrics import metric_named
from calipers.metrics.families.cost import TIER
from calipers.reports.charts.chart import GREY, Spec, category
from calipers.reports.number_format import format_figure, format_group, join_some, shorten_name
from calipers.reports.tables.shown_metrics import choose_metric_form, get_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from calipers.scores.result import Group, Histogram, Measured, Score

LONGEST = 28  # characters of a name


def describe_fields(groups: Sequence[Group]) -> str:
    """Return `, by model and tier`; empty if all records are one group."""
    names = [shorten_name(name, LONGEST) for name in groups[0].by]
    return f", by {' and '.join(names)}" if names else ""


def describe_range(score: Score, name: str) -> str:
    """Return what a chart of a metric finds: `: 0.2 ms (o1) to 0.5 ms (llama)`; empty without.

    The better end stands first.
    """
    known = [
        (measured, group)
        for group in score.groups
        if (measured := group.metrics.get(name)) is not None
        and measured.value is not None
        and isfinite(measured.value)
    ]
    if not known:
        return ""
    form = replace(choose_metric_form(name, [each for each, _ in known]), brackets=False)
    unit = get_unit(name)
    unit = f" {unit}" if unit else ""

    def show(found: Measured, group: Group) -> str:
        whose = f" ({shorten_name(format_group(group.by), LONGEST)})" if len(known) > 1 else ""
        return f"{format_figure(found.value, form=form)}{unit}{whose}"

    falling = metric_named(name).better == "higher"
    known.sort(key=lambda each: each[0].value or 0.0, reverse=falling)
    values = {each.value for each, _ in known}
    if len(known) > 1 and len(values) == 1:
        return f": {format_figure(values.pop(), form=form)}{unit} everywhere"
    ends = [show(*known[0]), *([show(*known[-1])] if len(known) > 1 else [])]
    return f": {' to '.join(ends)}"


def get_series(group: Group) -> str | None:
    """Return what colour shows: all the fields but the tier, if there are both; else None."""
    others = {name: value for name, value in group.by.items() if name != TIER}
    return format_group(others) if others and TIER in group.by else None


def name_group(group: Group, *, with_series: bool) -> str:
    """Return the group's name, without its series if a colour shows that."""
    if with_series or get_series(group) is None:
        return format_group(group.by) if group.by else "all runs"
    return format_group({TIER: group.by[TIER]})


def make_panel_title(group: Group, told: str, longest: int = LONGEST, offset: int = 4) -> Spec:
    """Return the group's name above its panel, and what is said about it below."""
    return {
        "text": shorten_name(name_group(group, with_series=True), longest),
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
    return join_some([shorten_name(name, LONGEST) for name in names])


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


CHAR_WIDTH, LINE_HEIGHT = 5.6, 13.0  # of the labels' font, a little generously
NEAR = 9.0  # from a point to its label

_LABEL_GAP = 6.0  # least gap between two labels on a line

_RINGS = (NEAR, 20.0, 34.0, 50.0, 70.0)
_SIDES = ((1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1), (0, -1), (0, 1))
_OVER_LABEL, _OVER_POINT, _OVER_LINE, _OUTSIDE, _FAR = 100.0, 40.0, 4.0, 1000.0, 0.3


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle along the axes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Say whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_within(self, width: float, height: float) -> bool:
        """Say whether it lies inside a chart of that size."""
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height


@dataclass(frozen=True, slots=True)
class Label:
    """A text around its centre; a line leads from its point to one that stands far off."""

    text: str
    x: float
    y: float
    end: tuple[float, float]  # the place on its rim that is nearest to the point
    led: bool


def place_labels(
    texts: Sequence[str],
    points: Sequence[tuple[float, float]],
    lines: Sequence[Box],
    *,
    width: float,
    height: float,
) -> list[Label]:
    """Return a place for the text of each point, the earlier ones choosing first.

    `lines` are further things better not written over, such as error bars.
    """
    dots = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    taken: list[Box] = []
    found: list[Label] = []
    for text, point in zip(texts, points, strict=True):
        choices = list(_list_places(text, point))

        def penalize(choice: tuple[float, Box]) -> float:
            ring, box = choice
            return (
                _FAR * ring
                + _OVER_LABEL * sum(map(box.overlaps, taken))
                + _OVER_POINT * sum(map(box.overlaps, dots))
                + _OVER_LINE * sum(map(box.overlaps, lines))
                + (0.0 if box.is_within(width, height) else _OUTSIDE)
            )

        ring, box = min(choices, key=penalize)
        taken.append(replace(box, left=box.left - _LABEL_GAP, right=box.right + _LABEL_GAP))
        middle = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        x, y = point
        end = min(box.right, max(box.left, x)), min(box.bottom, max(box.top, y))
        found.append(Label(text, *middle, end=end, led=ring > NEAR))
    return found


def _list_places(text: str, point: tuple[float, float]) -> Iterator[tuple[float, Box]]:
    """Yield the places to choose from, the nearest first, each with its distance."""
    half_width, half_height = len(text) * CHAR_WIDTH / 2, LINE_HEIGHT / 2
    for ring, (right, down) in product(_RINGS, _SIDES):
        aside = ring if right and not down else ring * 0.75
        x = point[0] + right * (aside + half_width)
        y = point[1] + down * (aside + half_height)
        yield ring, Box(x - half_width, y - half_height, x + half_width, y + half_height)
